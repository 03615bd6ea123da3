// Every broken rule is found, under its name and where it was broken, and nothing that is whole is refuted.

#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/exhaustive.hpp"
#include "support/ground_truth.hpp"
#include "support/mutants.hpp"
#include "support/small_program.hpp"

namespace ppsim::test::mutation_score_test {
namespace {

constexpr int kShards = 10;
/// Broken ones; ten times as many with PPSIM_EXHAUSTIVE=1.
std::size_t mutants_per_shard() { return exhaustive() ? 2'000 : 200; }

LoweringOptions draw_options(Dice& dice) {
  LoweringOptions options = draw_issue_options(dice);
  if (dice.one_in(2)) options.grouping = Grouping::paired;
  if (dice.one_in(3)) options.receive_buffers = 1 + dice.below(2);
  if (dice.one_in(4))
    options.recompute = StageRecompute(Recompute::full);
  else if (dice.one_in(4))
    options.offload.percent = 50;
  options.load = dice.one_in(3);
  options.unshard = dice.one_in(3);
  options.reduce_grad = dice.one_in(2);
  options.optimizer = dice.one_in(2);
  options.clip = options.optimizer && dice.one_in(2);
  return options;
}

using Broken = std::set<Property>;

VerifyOptions options_for(const TransportCapabilities& capabilities) {
  VerifyOptions options;
  options.capabilities = capabilities;
  options.properties = {Property::well_formed,
                        Property::matched,
                        Property::deadlock_free,
                        Property::collective_order,
                        Property::ascending_accumulation,
                        Property::weight_versions};
  return options;
}

Broken refuted(const VerifyReport& report) {
  Broken broken;
  for (const PropertyResult& result : report.results) {
    if (std::holds_alternative<Refuted>(result.verdict)) broken.insert(result.property);
  }
  return broken;
}

/// Nothing is left open but what a mismatch takes the meaning from.
void expect_decided(const VerifyReport& report) {
  for (const PropertyResult& result : report.results) {
    if (!std::holds_alternative<Unknown>(result.verdict)) continue;
    EXPECT_EQ(result.property, Property::deadlock_free);
    EXPECT_FALSE(report.proved(Property::matched));
  }
}

/// The checker of certificates, which shares no property with the verifier, accepts what the verifier proves
/// and nothing that it refutes.
void expect_checked_alike(const Program& program, const TransportCapabilities& capabilities,
                          const VerifyReport& report) {
  Certificate certificate;
  certificate.program_hash = program_hash(program);
  certificate.capabilities = capabilities;
  certificate.capabilities_hash = capabilities_hash(capabilities);
  certificate.properties = {"well_formed", "matched", "deadlock_free"};
  certificate.order = run_order(build_execution_graph(program, capabilities)).items;
  const auto holds = [&] { return check_certificate(certificate, program, nullptr).has_value(); };
  const bool runs = report.proved(Property::well_formed) && report.proved(Property::matched) &&
                    report.proved(Property::deadlock_free);
  EXPECT_EQ(holds(), runs);
  VerifyOptions of_tensors;
  of_tensors.capabilities = capabilities;
  of_tensors.properties = {Property::tensor_use};
  const bool used_well = verify(program, of_tensors).all_proved();
  for (const Property property : {Property::collective_order, Property::ascending_accumulation,
                                  Property::weight_versions, Property::tensor_use}) {
    certificate.properties.emplace_back(property_name(property));
    const bool proved = property == Property::tensor_use ? used_well : report.proved(property);
    EXPECT_EQ(holds(), runs && proved) << property;
    certificate.properties.pop_back();
  }
}

/// Whether an explanation leads to what was broken.
class Culprits {
 public:
  Culprits(const Program& program, const std::vector<InstructionId>& touched,
           const std::vector<Action>& actions)
      : touched_(touched) {
    for (const Action& action : actions) {
      std::ostringstream text;
      text << action;
      names_.push_back(text.str());
      names_.push_back(action_text(program.pipeline(), action));
      // A message on one missing action of several names each; a RESHARD says that its UNSHARD is not there.
      if (action.kind == OpKind::unshard) names_.push_back(std::to_string(action.subject) + "RESHARD");
    }
  }

  [[nodiscard]] bool are_named_by(const Counterexample& counterexample) const {
    return std::visit([this](const auto& found) { return named(found); }, counterexample);
  }

 private:
  [[nodiscard]] bool touches(InstructionId id) const { return std::ranges::count(touched_, id) > 0; }
  /// A name as a whole word.
  [[nodiscard]] bool names(const std::string& text) const {
    return std::ranges::any_of(names_, [&](const std::string& name) {
      for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
        const std::size_t end = at + name.size();
        if (begins && (end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0))
          return true;
      }
      return false;
    });
  }
  [[nodiscard]] bool named(const std::vector<Violation>& violations) const {
    return std::ranges::any_of(
        violations, [this](const Violation& v) { return touches(v.instruction) || names(v.message); });
  }
  [[nodiscard]] bool named(const Deadlock& deadlock) const {
    const auto in_cycle = [this](const Wait& w) { return touches(w.who.instruction) || names(w.who.action); };
    const auto absent = [this](const Wait& c) {
      return touches(c.who.instruction) || names(c.who.action) || names(c.why);
    };
    return std::ranges::any_of(deadlock.cycle, in_cycle) || std::ranges::any_of(deadlock.culprits, absent);
  }
  /// Of properties that are not asked about.
  template <class Other>
  [[nodiscard]] bool named(const Other&) const {
    return false;
  }

  const std::vector<InstructionId>& touched_;
  std::vector<std::string> names_;
};

struct Score {
  std::size_t refuted = 0;
  std::size_t equivalent = 0;
  std::map<Property, std::size_t> by;
};

/// Scores per way of breaking, of all shards that ran in this process.
class Table : public testing::Environment {
 public:
  std::map<std::string, Score> rows;
  std::size_t whole = 0;

  static Table& instance() {
    static Table* const kTable = static_cast<Table*>(testing::AddGlobalTestEnvironment(new Table));
    return *kTable;
  }

  void TearDown() override {
    if (rows.empty()) return;
    Score total;
    std::ostringstream out;
    out << std::left << std::setw(22) << "mutation"
        << "  refuted  equivalent  by\n";
    for (const auto& [name, score] : rows) {
      print(out, name, score);
      total.refuted += score.refuted;
      total.equivalent += score.equivalent;
      for (const auto& [property, count] : score.by) total.by[property] += count;
    }
    print(out, "all", total);
    out << whole << " whole Programs, none refuted\n";
    std::cout << out.str();
  }

 private:
  static void print(std::ostream& out, const std::string& name, const Score& score) {
    out << std::left << std::setw(22) << name << std::right << std::setw(9) << score.refuted << std::setw(12)
        << score.equivalent << ' ';
    for (const auto& [property, count] : score.by) out << ' ' << property << ' ' << count;
    out << '\n';
  }
};
Table& table = Table::instance();

class MutationScore : public testing::TestWithParam<int> {
 protected:
  /// Whether a Program has all properties; those that do not are none of this test's, once all agree on it.
  bool is_whole(const Program& program, const TransportCapabilities& capabilities, Broken& broken) {
    broken = broken_properties(program, program, capabilities);
    const VerifyReport report = verify(program, options_for(capabilities));
    EXPECT_EQ(refuted(report), broken);
    expect_checked_alike(program, capabilities, report);
    broken.erase(Property::deadlock_free);
    return report.proved(Property::deadlock_free);
  }

  /// A way to break a rule, and what chooses the place.
  struct Mutation {
    Breakage breakage;
    std::uint64_t seed;
  };

  void judge(const Program& whole, const Broken& before, const TransportCapabilities& capabilities,
             Mutation mutation) {
    const Breakage breakage = mutation.breakage;
    const auto mutant = break_one_rule(whole, breakage, mutation.seed);
    if (!mutant) return;
    const Broken truth = broken_properties(mutant->program, whole, capabilities);
    const VerifyReport report = verify(mutant->program, options_for(capabilities));
    EXPECT_EQ(refuted(report), truth) << breakage_name(breakage);
    expect_decided(report);
    expect_checked_alike(mutant->program, capabilities, report);
    Score& score = table.rows[std::string(breakage_name(breakage))];
    if (std::ranges::includes(before, truth)) {
      ++score.equivalent;
      return;
    }
    const Culprits culprits(whole, mutant->touched, mutant->actions);
    for (const PropertyResult& result : report.results) {
      const auto* found = std::get_if<Refuted>(&result.verdict);
      if (found == nullptr || before.contains(result.property)) continue;
      ++score.by[result.property];
      if (culprits.are_named_by(found->counterexample)) continue;
      std::ostringstream why;
      for (const std::string& line : explain(mutant->program, found->counterexample)) why << "\n  " << line;
      for (const Action& action : mutant->actions) why << "\n  broke " << action;
      ADD_FAILURE() << breakage_name(breakage) << ": " << result.property << " is refuted for another reason"
                    << why.str();
    }
    ++score.refuted;
    ++broken_;
    ++broken_by_[breakage];
  }

  /// Those that broke least so far, so that the rare ones are tried wherever they have a place.
  std::vector<Breakage> rarest(Dice& dice) const {
    std::vector<std::tuple<std::size_t, std::uint64_t, Breakage>> order;
    for (int k = 0; k < kBreakageCount; ++k) {
      const auto breakage = static_cast<Breakage>(k);
      const auto known = broken_by_.find(breakage);
      order.emplace_back(known == broken_by_.end() ? 0 : known->second, dice.roll(), breakage);
    }
    std::ranges::sort(order);
    std::vector<Breakage> first;
    for (std::size_t i = 0; i < 12; ++i) first.push_back(std::get<Breakage>(order[i]));
    return first;
  }

  std::size_t broken_ = 0;
  std::map<Breakage, std::size_t> broken_by_;
};

TEST_P(MutationScore, IsAllOfThem) {
  Dice dice(static_cast<std::uint64_t>(GetParam()) + 1);
  const std::span<const ScheduleInfo> all = registered_schedules();
  for (std::size_t n = 0; broken_ < mutants_per_shard() && !HasFailure(); ++n) {
    const std::size_t mine =
        n % ((all.size() + kShards - 1 - static_cast<std::size_t>(GetParam())) / kShards);
    const ScheduleInfo& info = all[mine * kShards + static_cast<std::size_t>(GetParam())];
    const ProgramLimits limits = dice.one_in(2) ? ProgramLimits{3, 4, 0} : ProgramLimits{6, 12, 1};
    const auto program = draw_program(info, limits, dice, draw_options(dice));
    if (!program) continue;
    TransportCapabilities capabilities;
    if (dice.one_in(3)) capabilities.credits = 1 + dice.below(2);
    Broken before;
    if (!is_whole(*program, capabilities, before)) continue;
    ++table.whole;
    for (const Breakage breakage : rarest(dice)) {
      if (broken_ < mutants_per_shard()) judge(*program, before, capabilities, {breakage, dice.roll()});
      if (HasFailure()) ADD_FAILURE() << info.name << ", Program " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, MutationScore, testing::Range(0, kShards));

}  // namespace
}  // namespace ppsim::test::mutation_score_test

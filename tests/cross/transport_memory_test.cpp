// Under every transport: worst cases are the maxima over all states that its guaranteed orders leave, and
// what is certified for one transport holds on every other one that takes the certificate.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/exhaustive.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"
#include "support/reachable_states.hpp"
#include "support/small_program.hpp"

namespace ppsim::test::transport_memory_test {
namespace {

constexpr int kShards = 8;
constexpr std::size_t kMaxStates = 30'000;
std::size_t programs_per_shard() { return exhaustive() ? 10'000 : 300; }

/// The promises of a transport, and its record in the library.
struct Promise {
  LaunchChain possible;
  LaunchChain guaranteed;
  bool eager = false;
  TransportCapabilities capabilities;
  std::string_view name = {};
};

/// The table of docs/ir.md, section 4, once more.
Promise promise_of(std::string_view name, bool compute_launches) {
  const LaunchChain in_order = {LaunchOrder::start, compute_launches, false};
  const LaunchChain one_queue = {LaunchOrder::start, compute_launches, true};
  Promise promise{{}, {}, false, transport(name, compute_launches).value(), name};
  if (name == "any") promise.possible = {LaunchOrder::start, true, false};
  if (name == "nccl") promise.possible = promise.guaranteed = in_order;
  if (name == "nccl-one-queue") promise.possible = promise.guaranteed = one_queue;
  promise.eager = name == "any" || name == "nccl" || name == "nccl-one-queue";
  return promise;
}

LaunchChain draw_chain(Dice& dice) {
  return {dice.one_of({LaunchOrder::none, LaunchOrder::start, LaunchOrder::completion}), dice.one_in(2),
          dice.one_in(3)};
}

/// A transport without a name: some of its waits, or all, or none are orders that it keeps.
Promise draw_promise(Dice& dice) {
  Promise promise{draw_chain(dice), {}, dice.one_in(3), {}};
  do {
    promise.guaranteed = draw_chain(dice);
  } while (!promise.guaranteed.is_within(promise.possible));
  if (dice.one_in(3)) promise.capabilities.credits = 1 + dice.below(2);
  promise.capabilities.eager = promise.eager;
  promise.capabilities.issue_blocks = dice.one_in(6);
  promise.capabilities.launches = promise.possible;
  promise.capabilities.guaranteed_launches = promise.guaranteed;
  return promise;
}

/// Each named transport, with and without computation that launches collectives, and one without a name.
std::vector<Promise> draw_promises(Dice& dice) {
  std::vector<Promise> promises;
  for (const Transport& named : transports()) {
    for (const bool compute_launches : {false, true})
      promises.push_back(promise_of(named.name, compute_launches));
  }
  promises.push_back(draw_promise(dice));
  return promises;
}

/// All states of a Program where a rank keeps to a chain, computed once for each.
class States {
 public:
  States(const Program& program, const TensorTable& table) : program_(program), table_(table) {}

  /// Returns: nothing where there are too many.
  const Reachable* under(TransportCapabilities capabilities, const LaunchChain& chain) {
    capabilities.launches = chain;
    capabilities.guaranteed_launches = {};
    capabilities.eager = false;
    const auto known = std::ranges::find(known_, capabilities, &Known::capabilities);
    if (known != known_.end()) return known->states ? &*known->states : nullptr;
    known_.push_back({capabilities, reachable_states(program_, capabilities, table_, kMaxStates)});
    return known_.back().states ? &*known_.back().states : nullptr;
  }

 private:
  struct Known {
    TransportCapabilities capabilities;
    std::optional<Reachable> states;
  };
  const Program& program_;
  const TensorTable& table_;
  std::vector<Known> known_;
};

/// The truth about a Program on a transport, from all states.
struct Truth {
  bool hangs = false;
  std::vector<Bytes> most;  ///< per rank

  [[nodiscard]] bool is_within(const Certificate& certificate) const {
    return !hangs && std::ranges::all_of(certificate.memory, [this](const MemoryWitness& witness) {
      return witness.bytes >= most[witness.rank.index()];
    });
  }
};

/// Whether a certificate would be accepted for a run on a transport.
bool is_taken(const Certificate& certificate, const Program& program, const SizeTable& sizes,
              const TransportCapabilities& used) {
  return check_certificate_on(used, certificate, program, &sizes).has_value();
}

SizeTable draw_sizes(int stages, Dice& dice) {
  SizeTable sizes;
  for (int k = 0; k < kTensorKindCount; ++k) {
    const auto kind = static_cast<TensorKind>(k);
    sizes.set({.kind = kind}, dice.below(10));
    for (int s = 0; s < stages; ++s) {
      if (dice.one_in(2)) sizes.set({.kind = kind, .subject = s}, dice.below(30));
    }
  }
  return sizes;
}

struct Tally {
  std::size_t programs = 0, collectives = 0, slices = 0, routes = 0, graphs = 0, offloads = 0, left_out = 0;
  std::size_t worst_cases = 0, hangs = 0;
  std::size_t taken = 0;  ///< by another transport
  std::size_t refused = 0;
  std::size_t too_low = 0;  ///< refused, and the bound would not have held

  friend std::ostream& operator<<(std::ostream& out, const Tally& t) {
    return out << t.programs << " programs (" << t.collectives << " with collectives, " << t.slices
               << " with slices, " << t.routes << " with routes, " << t.graphs << " with other graphs, "
               << t.offloads << " with offloading; " << t.left_out << " left out): " << t.worst_cases
               << " worst cases, " << t.hangs << " hangs; certificates elsewhere: " << t.taken << " taken, "
               << t.refused << " refused, " << t.too_low << " of these too low";
  }

  void count(const Program& program) {
    const Pipeline& pipeline = program.pipeline();
    const auto has = [&](OpKind kind) {
      return std::ranges::any_of(program.all_actions(), [&](const Action& a) { return a.kind == kind; });
    };
    ++programs;
    collectives += has(OpKind::collective) ? 1U : 0U;
    slices += pipeline.slices() > 1 ? 1U : 0U;
    routes += pipeline.spec().routes.size() > 1 ? 1U : 0U;
    graphs += std::ranges::any_of(pipeline.spec().edges, [](const StageEdge& edge) {
      return edge.to.value() != edge.from.value() + 1;
    });
    offloads += has(OpKind::offload) ? 1U : 0U;
  }
};

/// Asks about one Program under each transport.
class Comparison {
 public:
  Comparison(const Program& program, const std::vector<Promise>& promises, Dice& dice)
      : program_(program),
        promises_(promises),
        table_(tensor_table(program)),
        sizes_(draw_sizes(program.pipeline().stages(), dice)) {}

  /// Returns: whether there are few enough states, and nothing is mismatched.
  bool visit_all_states() {
    States states(program_, table_);
    for (const Promise& promise : promises_) {
      const Reachable* possible = states.under(promise.capabilities, promise.possible);
      TransportCapabilities surely = promise.capabilities;
      if (promise.eager) surely.credits = kUnlimitedCredits;
      const Reachable* kept = states.under(surely, promise.guaranteed);
      if (possible == nullptr || kept == nullptr || !possible->lists.matched) return false;
      truths_.push_back({possible->hangs, max_of(*kept)});
    }
    return true;
  }

  void run(Tally& tally) const {
    for (std::size_t t = 0; t < promises_.size(); ++t) {
      SCOPED_TRACE(transport_text(promises_[t].capabilities));
      VerifyOptions options;
      options.capabilities = promises_[t].capabilities;
      options.sizes = sizes_;
      const VerifyReport report = verify(program_, options);
      ++(truths_[t].hangs ? tally.hangs : tally.worst_cases);
      EXPECT_EQ(report.proved(Property::deadlock_free), !truths_[t].hangs);
      if (truths_[t].hangs) continue;
      EXPECT_EQ(bytes_of(report), truths_[t].most);
      const auto certificate = make_certificate({program_, options.capabilities}, options, report);
      if (certificate) use_elsewhere(*certificate, t, tally);
    }
  }

 private:
  [[nodiscard]] std::vector<Bytes> max_of(const Reachable& states) const {
    const std::vector<Bytes> bytes = tensor_sizes(table_, sizes_);
    std::vector<Bytes> most;
    for (int r = 0; r < program_.pipeline().ranks(); ++r)
      most.push_back(states.most(table_, bytes, RankId(r)));
    return most;
  }

  static std::vector<Bytes> bytes_of(const VerifyReport& report) {
    std::vector<Bytes> bytes;
    for (const WorstCase& worst : report.memory) bytes.push_back(worst.bytes);
    return bytes;
  }

  /// The transports on which a proof for `any` holds.
  static bool is_to_hold(std::string_view proved, std::string_view used) {
    return proved == "any" && !used.empty() && used != "nccl-one-queue";
  }

  void use_elsewhere(const Certificate& certificate, std::size_t own, Tally& tally) const {
    for (std::size_t u = 0; u < promises_.size(); ++u) {
      if (promises_[u].capabilities == promises_[own].capabilities) continue;
      const bool taken = is_taken(certificate, program_, sizes_, promises_[u].capabilities);
      const bool holds = truths_[u].is_within(certificate);
      EXPECT_TRUE(!taken || holds) << "and taken on " << transport_text(promises_[u].capabilities);
      EXPECT_TRUE(taken || !is_to_hold(promises_[own].name, promises_[u].name)) << promises_[u].name;
      ++(taken ? tally.taken : tally.refused);
      if (!truths_[u].hangs && !holds) ++tally.too_low;
    }
  }

  const Program& program_;
  const std::vector<Promise>& promises_;
  TensorTable table_;
  SizeTable sizes_;
  std::vector<Truth> truths_;  ///< per promise
};

LoweringOptions draw_options(Dice& dice) {
  LoweringOptions options = draw_issue_options(dice);
  if (dice.one_in(3)) options.grouping = Grouping::paired;
  if (dice.one_in(2)) options.offload.percent = dice.one_in(2) ? 50 : 100;
  options.load = dice.one_in(4);
  options.unshard = dice.one_in(6);
  options.reduce_grad = dice.one_in(6);
  options.optimizer = dice.one_in(6);
  options.clip = options.optimizer && dice.one_in(2);
  return options;
}

Schedule draw_schedule(Dice& dice) {
  RandomShape shape{
      .ranks = 2 + dice.below(2), .microbatches = 1 + dice.below(3), .slices = 1 + dice.below(2)};
  if (dice.one_in(2)) shape.chunks = 2;
  shape.backward = dice.one_of({BackwardMode::full, BackwardMode::split, BackwardMode::mixed});
  shape.recompute = dice.one_in(4);
  shape.overlaps = dice.one_in(4);
  shape.general = !dice.one_in(4);
  return random_schedule(shape, dice.roll());
}

std::optional<Program> draw_program(Dice& dice) {
  if (dice.one_in(3)) {
    const auto& infos = registered_schedules();
    return draw_program(infos[dice.index(infos.size())], {.ranks = 3, .microbatches = 3}, dice,
                        draw_options(dice));
  }
  const Schedule schedule = draw_schedule(dice);
  if (dice.one_in(3)) return random_program(schedule, dice.below(3), dice.roll());
  LoweringOptions options = draw_options(dice);
  // Asynchronous schedules have their OPT already.
  if (schedule.pipeline().asynchronous()) options.reduce_grad = options.optimizer = options.clip = false;
  const auto program = lower(schedule, options);
  return program ? std::optional(*program) : std::nullopt;
}

class TransportMemory : public testing::TestWithParam<int> {};

TEST_P(TransportMemory, IsThatOfAllStatesAndHoldsWhereItsCertificateIsTaken) {
  Dice dice(static_cast<std::uint64_t>(GetParam()) + 1);
  Tally tally;
  while (tally.programs < programs_per_shard() && !HasFailure()) {
    const auto program = draw_program(dice);
    if (!program) continue;
    const std::vector<Promise> promises = draw_promises(dice);
    Comparison comparison(*program, promises, dice);
    if (!comparison.visit_all_states()) {
      ++tally.left_out;
      continue;
    }
    tally.count(*program);
    comparison.run(tally);
    if (HasFailure()) ADD_FAILURE() << "number " << tally.programs << '\n' << to_json(*program);
  }
  std::cout << tally << '\n';
  for (const std::size_t often :
       {tally.collectives, tally.slices, tally.routes, tally.graphs, tally.offloads})
    EXPECT_GT(often, tally.programs / 20);
  EXPECT_GT(tally.taken, 0U);
  EXPECT_GT(tally.too_low, 0U) << "no certificate was refused for a reason";
}

INSTANTIATE_TEST_SUITE_P(Shards, TransportMemory, testing::Range(0, kShards));

}  // namespace
}  // namespace ppsim::test::transport_memory_test

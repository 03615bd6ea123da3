#include "ppsim/verifier/parameterized/all_microbatches.hpp"

#include <algorithm>

#include "proofs.hpp"

namespace ppsim::verifier {
namespace {

/// Behind what kept a number below a refuted one from being looked at.
constexpr const char* kMaybeSmaller = "a smaller one may break it, too";

constexpr int kMaxTried = 1000;

bool is_asked(Property property, const AllMicrobatchesOptions& options) {
  if (property == Property::memory && options.memory_limit) return true;
  if (!options.properties.empty())
    return std::ranges::find(options.properties, property) != options.properties.end();
  return has_all_microbatches_method(property) && (property != Property::memory || options.sizes.has_value());
}

/// Everything that has been found out about one schedule.
class Investigation {
 public:
  Investigation(const ProgramFor& program_for, const AllMicrobatchesOptions& options)
      : options_(options),
        deadline_(options.timeout_s),
        source_(program_for, options.sample_limit, deadline_),
        question_{source_, options_, deadline_} {}

  Expected<AllMicrobatchesReport> run() {
    const int ranks = ranks_of_schedule();
    if (source_.failure()) return tl::unexpected(*source_.failure());
    if (ranks == 0 && !source_.is_late())
      return make_error(ErrorCode::bad_argument,
                        "the schedule accepts no number of microbatches up to " + std::to_string(kMaxTried));
    if (ranks > 0)
      recognise({.ranks = ranks, .dense = dense_limit(source_, ranks), .updates = updates_within(ranks)});
    if (source_.failure()) return tl::unexpected(*source_.failure());
    for (const PropertyInfo& info : property_registry()) {
      if (is_asked(info.property, options_)) decide(info.property);
    }
    if (source_.failure()) return tl::unexpected(*source_.failure());
    return std::move(report_);
  }

 private:
  /// By the waits that may occur, and where they may or may not, by those that always do: bounds rest on
  /// these.
  void recognise(CoverageOptions how) {
    const TransportCapabilities& transport = options_.capabilities;
    const bool bounds = is_asked(Property::memory, options_);
    how.with_tensors = bounds && transport.has_certain_launches();
    how.launches = transport.launches;
    how.repetition = repetition_under(how.launches);
    report_.coverage = find_coverage(source_, how);
    if (!bounds || transport.has_certain_launches()) return;
    how.with_tensors = true;
    how.launches = transport.guaranteed_launches;
    how.repetition = repetition_under(how.launches);
    of_bounds_ = find_coverage(source_, how);
  }

  [[nodiscard]] const std::optional<Repetition>& repetition_under(const LaunchChain& launches) const {
    const bool independent = launches.order == LaunchOrder::none;
    return independent ? options_.repetitions.queues : options_.repetitions.lists;
  }

  [[nodiscard]] const Coverage& coverage_of(Property property) const {
    return property == Property::memory && of_bounds_ ? *of_bounds_ : report_.coverage;
  }

  int ranks_of_schedule() {
    for (int m = 1; m <= kMaxTried && !source_.failure(); ++m) {
      if (const auto program = source_.get(m)) return program->pipeline().ranks();
    }
    return 0;
  }

  /// Whether there are updates between the microbatches of a step in its steady state.
  bool updates_within(int ranks) {
    for (int m = steady_from(ranks); m <= 2 * steady_from(ranks); ++m) {
      if (const auto program = source_.get(m)) return program->pipeline().asynchronous();
    }
    return false;
  }

  void decide(Property property) {
    const Deadline clock(0);
    AllMicrobatchesResult result;
    result.property = property;
    FamilyAnswer answer = one_by_one(property);
    // From then on no Program is generated, which must not read as if it were refused.
    if (deadline_.over() && std::holds_alternative<Proved>(answer.verdict))
      answer.verdict = Unknown{"time limit reached"};
    std::optional<int> undecided;
    if (!std::holds_alternative<Unknown>(answer.verdict)) combine(answer, of_families(property, undecided));
    if (std::holds_alternative<Refuted>(answer.verdict) && undecided && *undecided < answer.microbatches)
      answer.notes.push_back("m = " + std::to_string(*undecided) + " was not decided: " + kMaybeSmaller);
    limit_to_known(coverage_of(property), answer, result);
    if (property == Property::memory) settle_memory(answer);
    result.verdict = std::move(answer.verdict);
    result.microbatches = answer.microbatches;
    result.method = std::move(answer.method);
    result.notes = std::move(answer.notes);
    result.seconds = -clock.remaining_s();
    report_.results.push_back(std::move(result));
  }

  /// A proof about the periodic programs holds for every number only where each one is a member.
  static void limit_to_known(const Coverage& coverage, FamilyAnswer& answer, AllMicrobatchesResult& result) {
    if (std::holds_alternative<Refuted>(answer.verdict) && answer.microbatches > coverage.compared_to + 1)
      answer.notes.push_back("not every number from " + std::to_string(coverage.compared_to + 1) +
                             " on was compared: " + kMaybeSmaller);
    if (!std::holds_alternative<Proved>(answer.verdict) || coverage.repeats_from) return;
    result.holds_up_to = coverage.compared_to;
    if (!coverage.uncovered.empty()) {
      answer.verdict = Unknown{"no periodic program found for " + coverage.uncovered.front()};
    } else {
      answer.verdict = Unknown{"holds for each m up to " + std::to_string(coverage.compared_to) + ", but " +
                               kNotKnownToRepeat};
    }
  }

  /// Takes the answer about fewer microbatches where both refute, else what is not proved.
  static void combine(FamilyAnswer& answer, FamilyAnswer other) {
    const auto rank = [](const FamilyAnswer& a) {
      if (std::holds_alternative<Refuted>(a.verdict)) return 2;
      return std::holds_alternative<Unknown>(a.verdict) ? 1 : 0;
    };
    const bool better = rank(other) != rank(answer)
                            ? rank(other) > rank(answer)
                            : rank(other) == 2 && other.microbatches < answer.microbatches;
    std::vector<std::string> notes = answer.notes;
    for (std::string& note : other.notes) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
    if (better || answer.method.empty()) answer = std::move(other);
    answer.notes = std::move(notes);
  }

  /// Numbers that are no members, ascending up to the first that breaks the property.
  FamilyAnswer one_by_one(Property property) {
    FamilyAnswer all{Proved{}, 0, ""};
    for (const int m : coverage_of(property).alone) {
      const auto program = source_.get(m);
      if (program == nullptr) continue;
      VerifyReport report = verify_one(question_, property, *program);
      PropertyResult& result = report.results.front();
      FamilyAnswer one{std::move(result.verdict), m, result.method, std::move(result.notes)};
      if (auto* unknown = std::get_if<Unknown>(&one.verdict))
        unknown->reason = "m = " + std::to_string(m) + ": " + unknown->reason;
      for (const WorstCase& worst : report.memory) alone_.emplace_back(m, worst);
      const bool refuted = std::holds_alternative<Refuted>(one.verdict);
      combine(all, std::move(one));
      if (refuted) return all;
    }
    all.method.clear();
    return all;
  }

  /// Sets `undecided` to the smallest number about which there is no answer.
  FamilyAnswer of_families(Property property, std::optional<int>& undecided) {
    FamilyAnswer all{Proved{}, 0, ""};
    for (const Family& family : coverage_of(property).families) {
      FamilyAnswer one{Unknown{"time limit reached"}, 0, "smt"};
      if (!deadline_.over()) one = of_family(property, family.program);
      const int first = family.program.microbatches(family.program.first);
      if (std::holds_alternative<Unknown>(one.verdict))
        undecided = std::min(undecided.value_or(first), first);
      combine(all, std::move(one));
    }
    return all;
  }

  FamilyAnswer of_family(Property property, const PeriodicProgram& family) {
    if (property == Property::matched) return matched_for_all(question_, family);
    if (property == Property::deadlock_free) return deadlock_free(family);
    if (property == Property::memory) return memory_of_family(family);
    return {Unknown{"no method for all numbers of microbatches"}, 0, "static"};
  }

  FamilyAnswer deadlock_free(const PeriodicProgram& family) {
    FamilyAnswer answer = deadlock_free_for_all(question_, family);
    if (options_.queries && answer.method == "ranking") cross_check_for_all(question_, family, answer);
    return answer;
  }

  FamilyAnswer memory_of_family(const PeriodicProgram& family) {
    if (!options_.sizes) return {Unknown{"no sizes are given"}, 0, "smt"};
    if (!(of_bounds_ ? all_finish() : finishes(family)))
      return {Unknown{"deadlock freedom is not proved"}, 0, "smt"};
    std::vector<MemoryForAll> bounds;
    FamilyAnswer answer = memory_for_all(question_, family, bounds);
    for (const MemoryForAll& bound : bounds) raise(bound);
    return answer;
  }

  /// Without a residency limit, which memory leaves out.
  bool finishes(const PeriodicProgram& family) {
    AllMicrobatchesOptions options = options_;
    options.capabilities.residency.reset();
    const FamilyAnswer answer = deadlock_free_for_all({source_, options, deadline_}, family);
    return std::holds_alternative<Proved>(answer.verdict);
  }

  /// The same of every number of microbatches, but those that were looked at by themselves.
  bool all_finish() {
    if (!all_finish_) {
      all_finish_ = report_.coverage.uncovered.empty() &&
                    std::ranges::all_of(report_.coverage.families,
                                        [&](const Family& family) { return finishes(family.program); });
    }
    return *all_finish_;
  }

  /// Bounds that hold for the numbers that were looked at by themselves, too; none where they are not proved.
  void settle_memory(const FamilyAnswer& answer) {
    for (const auto& [microbatches, worst] : alone_) raise(worst, microbatches);
    if (std::holds_alternative<Unknown>(answer.verdict)) report_.memory.clear();
  }

  void raise(const MemoryForAll& bound) {
    auto& known = bound_of(bound.rank, bound.period);
    const bool higher = bound.bytes.constant > known.bytes.constant;
    if (higher || known.reached_at == 0) known.reached_at = bound.reached_at;
    known.bytes.constant = std::max(known.bytes.constant, bound.bytes.constant);
    known.bytes.per_period = std::max(known.bytes.per_period, bound.bytes.per_period);
  }

  void raise(const WorstCase& worst, int microbatches) {
    auto& known = bound_of(worst.rank, period());
    const Bytes missing = worst.bytes - known.bytes.at(microbatches / known.period);
    if (missing <= 0 && known.reached_at != 0) return;
    known.bytes.constant += missing;
    known.reached_at = microbatches;
  }

  [[nodiscard]] int period() const {
    const auto& families = coverage_of(Property::memory).families;
    return families.empty() ? 1 : families.front().program.rule.period;
  }

  MemoryForAll& bound_of(RankId rank, int of_period) {
    for (MemoryForAll& bound : report_.memory) {
      if (bound.rank == rank) return bound;
    }
    report_.memory.push_back({rank, {}, of_period, 0});
    return report_.memory.back();
  }

  const AllMicrobatchesOptions& options_;
  const Deadline deadline_;
  Source source_;
  AllQuestion question_;
  AllMicrobatchesReport report_;
  std::optional<Coverage> of_bounds_;  ///< where other waits may occur than always do
  std::optional<bool> all_finish_;
  std::vector<std::pair<int, WorstCase>> alone_;  ///< by number of microbatches
};

}  // namespace

bool has_all_microbatches_method(Property property) {
  return property == Property::matched || property == Property::deadlock_free || property == Property::memory;
}

const AllMicrobatchesResult* AllMicrobatchesReport::find(Property property) const {
  const auto result = std::ranges::find(results, property, &AllMicrobatchesResult::property);
  return result == results.end() ? nullptr : &*result;
}

bool AllMicrobatchesReport::proved(Property property) const {
  const AllMicrobatchesResult* result = find(property);
  return result != nullptr && std::holds_alternative<Proved>(result->verdict);
}

AllMicrobatchesOptions asked_of_all(const VerifyOptions& of_one) {
  AllMicrobatchesOptions options;
  options.properties = of_one.properties;
  options.capabilities = of_one.capabilities;
  options.sizes = of_one.sizes;
  options.memory_limit = of_one.memory_limit;
  options.timeout_s = of_one.timeout_s;
  options.state_limit = of_one.state_limit;
  options.memory_budget = of_one.memory_budget;
  options.queries = of_one.queries;
  return options;
}

VerifyReport verify_one(const AllQuestion& question, Property property, const Program& program) {
  const AllMicrobatchesOptions& asked = question.options;
  return verify(program, {.properties = {property},
                          .capabilities = asked.capabilities,
                          .sizes = asked.sizes,
                          .memory_limit = asked.memory_limit,
                          .timeout_s = std::max(question.deadline.remaining_s(), 0.001),
                          .state_limit = asked.state_limit,
                          .memory_budget = asked.memory_budget});
}

Expected<AllMicrobatchesReport> verify_all_microbatches(const ProgramFor& program_for,
                                                        const AllMicrobatchesOptions& options) {
  for (const Property property : options.properties) {
    if (!has_all_microbatches_method(property))
      return make_error(
          ErrorCode::bad_argument, "a property without a method for all numbers of microbatches",
          {.found = std::string(property_name(property)), .expected = "matched, deadlock_free or memory"});
  }
  return Investigation(program_for, options).run();
}

}  // namespace ppsim::verifier

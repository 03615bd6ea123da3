#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <variant>

#include "command.hpp"
#include "input/communicators.hpp"
#include "options/call_limits.hpp"
#include "options/query_folder.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/costs/rank_memory.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/parameterized/all_ranks.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::cli {

/// The verdicts so far on one input, for an end before all are known.
class DecidedSoFar {
 public:
  struct Item {
    PropertyResult result;
    Json json;         ///< as result_json() has it
    std::string text;  ///< as result_text() has it
  };

  void add(const Program& program, const PropertyResult& result);
  /// Nothing where it is not decided yet.
  [[nodiscard]] std::optional<Item> find(Property property) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Item> items_;
};

/// The questions that the command line of `verify` asks.
struct VerifyRequest {
  std::vector<std::string> inputs;
  InputOptions input;
  CostOptions costs;
  std::string properties, memory_limit, policy, certificate, smt2, repair, repair_with;
  std::string memory_budget;
  std::string makespan_limit, for_all, spread, other;
  std::string annotations;  ///< whose; empty: none
  bool per_stage = false;
  TransportChoice transport;
  double timeout_s = 60;
  std::size_t state_limit = VerifyOptions().state_limit;
  std::size_t sample_limit = AllMicrobatchesOptions().sample_limit;
  bool cross_check = false;
  bool all_microbatches = false;
  std::shared_ptr<DecidedSoFar> decided;  ///< of one input
  std::optional<Bytes> budget;            ///< of --memory-budget
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::shared_ptr<QueryFolder> queries;  ///< of --smt2

  /// The option that gives one number of microbatches.
  [[nodiscard]] const char* one_number() const {
    return costs.model.empty() ? "--microbatches M" : "--global-batch-size G";
  }
  [[nodiscard]] bool is_late() const;
  /// Seconds that are left, some of them in any case.
  [[nodiscard]] double remaining_s() const;
  /// The time and memory that a question to Z3 may take.
  [[nodiscard]] SolverOptions solver_options() const { return {remaining_s(), budget, sink_of(queries)}; }
};

/// "raise --timeout": the options to raise so that more of what is unknown for these reasons may be decided;
/// empty: none.
[[nodiscard]] std::string what_to_raise(const std::vector<std::string>& reasons);
/// The reasons of all that is unknown. Report: VerifyReport or AllMicrobatchesReport.
template <class Report>
[[nodiscard]] std::vector<std::string> unknown_reasons(const Report& report) {
  std::vector<std::string> reasons;
  for (const auto& result : report.results) {
    if (const auto* unknown = std::get_if<Unknown>(&result.verdict)) reasons.push_back(unknown->reason);
  }
  return reasons;
}

/// Sets what an interrupt prints: the properties decided so far.
void tell_decided(const VerifyRequest& request);
/// Prints the properties that were decided before a limit, and that the rest are not. Returns: the exit code.
int say_limit(const VerifyRequest& request, const std::string& reason, const Output& output);

struct VerifyAnswer {
  AnalyzedProgram analyzed;
  VerifyOptions asked;
  VerifyReport report;
  std::optional<CommunicatorPolicy> communicators;  ///< none: those of a native Program
  bool policy_was_asked = false;                    ///< by --communicators
  std::optional<Target> target = {};                ///< of --for, which loads it
  std::optional<RankMemory> devices = {};           ///< where `memory` was decided
  IdVector<RankId, Bytes> communicator_bytes = {};  ///< of the transport; empty where it takes none

  [[nodiscard]] const Program& program() const { return analyzed.program(); }
  /// The largest pool with the communicators beside it, where it is above a limit that the live tensors keep
  /// to.
  [[nodiscard]] std::optional<Bytes> pool_above_limit() const;
  /// Whether there was no time to decide if the pool keeps to the limit.
  [[nodiscard]] bool misses_pool_for_time() const;
  /// The exit code of the verdicts, and of a pool that does not fit.
  [[nodiscard]] int exit() const;
};

/// Adds the memory that the devices need beside the live tensors.
void add_devices(const VerifyRequest& request, VerifyAnswer& answer);

/// Errors: options that are unknown, or that do not go together.
[[nodiscard]] Expected<VerifyOptions> verify_options(const VerifyRequest& request, const Subject& subject);

/// Verifies request.input, lowered or read with the communicators of `policy`.
[[nodiscard]] Expected<VerifyAnswer> verify_input(const VerifyRequest& request,
                                                  const std::optional<CommunicatorPolicy>& policy);

/// With --for-all and without COSTS the middle of the intervals stands for them.
[[nodiscard]] Expected<void> add_usual_costs(VerifyRequest& request);
/// Adds what --makespan-limit, --spread and --for-all say of one subject.
[[nodiscard]] Expected<void> add_makespan(const VerifyRequest& request, const Subject& subject,
                                          VerifyOptions& options);

/// `verify --never-slower-than`: decides, prints, and returns the exit code.
Expected<int> verify_never_slower(const VerifyRequest& request,
                                  const std::optional<CommunicatorPolicy>& policy, const Output& output);

/// `work` within the limits of the request. Where they do not suffice, says so; then the exit code is
/// returned, or the process has ended.
template <class Work>
tl::expected<std::invoke_result_t<Work>, int> within_limits(const VerifyRequest& request,
                                                            const Output& output, Work work) {
  try {
    const MemoryCap cap(request.budget);
    return within(request.remaining_s(), std::move(work),
                  [&] { return say_limit(request, kTimeLimit, output); });
  } catch (const std::bad_alloc&) {
    return tl::unexpected(say_limit(request, kMemoryLimit, output));
  } catch (const std::system_error&) {  // no memory for a thread
    return tl::unexpected(say_limit(request, kMemoryLimit, output));
  }
}

/// The exit code of the answers to all properties. Report: VerifyReport or AllMicrobatchesReport.
template <class Report>
[[nodiscard]] int verdict_exit(const Report& report) {
  bool does_not_fit = false;
  bool unknown = false;
  for (const auto& result : report.results) {
    unknown = unknown || std::holds_alternative<Unknown>(result.verdict);
    if (!std::holds_alternative<Refuted>(result.verdict)) continue;
    if (result.property != Property::memory) return kRefuted;
    does_not_fit = true;
  }
  if (does_not_fit) return kDoesNotFit;
  return unknown ? kUnknown : kDone;
}
/// One verdict as `verify --json` writes it.
[[nodiscard]] Json result_json(const Program& program, const PropertyResult& result);
/// The text about one verdict that follows the table of all.
[[nodiscard]] std::string result_text(const Program& program, const PropertyResult& result);
/// A row of a table: the property, its verdict and the method.
[[nodiscard]] std::vector<std::string> verdict_cells(const auto& result) {
  return {std::string(property_name(result.property)), std::string(verdict_name(result.verdict)),
          result.method};
}
/// One Program's verdicts as `verify --json` writes them.
[[nodiscard]] Json report_json(const VerifyAnswer& answer);
/// The same as text.
void print_report(const VerifyAnswer& answer);
/// Prints what --annotations asks for of request.input, behind its report or error.
void annotate(const VerifyRequest& request, const Expected<VerifyAnswer>& answer, const Output& output);
/// True for several inputs, for a folder, and for several communicator policies.
[[nodiscard]] bool is_many(const VerifyRequest& request);
/// One table for one or more files under one or more policies; returns the exit code that goes before the
/// others.
Expected<int> verify_many(const VerifyRequest& request, const Output& output);

/// Advice on removing a deadlock: changes to the Program, buffers of the transport.
struct Remedy {
  RepairAnswer repair;
  CreditsAnswer credits;
  bool mixes = false;  ///< `matched` is refuted: it undoes a mismatch, too
};
/// The changes that --repair-with names.
/// Errors: bad_argument.
[[nodiscard]] Expected<std::vector<ChangeKind>> kinds_of(const std::string& names);
/// Nothing where deadlock freedom is not in question, and for large Programs and mismatches unless --repair
/// asks. Requires: kinds_of() takes request.repair_with.
[[nodiscard]] std::optional<Remedy> find_remedy(const VerifyRequest& request, const VerifyAnswer& answer);
[[nodiscard]] Json remedy_json(const Remedy& remedy);
void print_remedy(const Remedy& remedy);
/// Whether --repair FILE writes, or may find, a Program that does not hang.
[[nodiscard]] bool may_be_repaired(const VerifyReport& report, const std::optional<Remedy>& remedy);
/// A sentence of advice on the next step, which may name the written files.
[[nodiscard]] std::string verify_advice(const VerifyRequest& request, const VerifyAnswer& answer,
                                        const std::optional<Remedy>& remedy);
/// Writes the repaired Program where there is one and a file is named. Returns: whether it did.
Expected<bool> write_repaired(const VerifyRequest& request, const std::optional<Remedy>& remedy);

/// One policy of --communicators, which may list several. Errors: bad_argument.
[[nodiscard]] Expected<CommunicatorPolicy> policy_of_list(const std::string& name);

/// NAME for a number of microbatches.
using SubjectFor = std::function<Expected<Subject>(int microbatches)>;
/// Of the numbers of microbatches the first that NAME accepts is at most this.
inline constexpr int kMaxTriedMicrobatches = 1000;

/// How the Programs of NAME on so many ranks repeat where no COSTS are given.
[[nodiscard]] Repetitions repetitions_at_unit_costs(const InputOptions& input,
                                                    const std::optional<CommunicatorPolicy>& policy,
                                                    int ranks);
/// How they repeat under COSTS, too.
[[nodiscard]] Repetitions repetitions_of(const VerifyRequest& request,
                                         const std::optional<CommunicatorPolicy>& policy,
                                         const SubjectFor& subject_for);

/// The Programs of NAME for all numbers of microbatches.
struct AllPrograms {
  ProgramFor program_for;
  std::function<Repetitions()> repetitions;
};
/// `verify --all-microbatches`: decides, prints, and returns the exit code.
Expected<int> verify_for_all(const VerifyRequest& request, const AllPrograms& programs,
                             const VerifyOptions& asked, const Output& output);

/// The same for all numbers of ranks.
struct AllRanksPrograms {
  ProgramForRanks program_for;
  RepetitionsForRanks repetitions_for;
};
/// `verify --all-microbatches` without --ranks: for every number of ranks as well.
Expected<int> verify_for_all_ranks(const VerifyRequest& request, const AllRanksPrograms& programs,
                                   const Output& output);

}  // namespace ppsim::cli

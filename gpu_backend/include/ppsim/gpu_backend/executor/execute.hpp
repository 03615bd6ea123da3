#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

namespace ppsim::gpu_backend {

struct Algorithms;

/// Ranks that compute on threads of this process, in host memory.
struct CpuOptions {
  friend bool operator==(const CpuOptions&, const CpuOptions&) = default;
};

/// Ranks that compute nothing: every action, transfer and collective takes the time that `costs` says, on the
/// clock on the wall. No pool is allocated, only accounted for, and there are no gradients.
struct EmulatedOptions {
  CostTable costs;
  friend bool operator==(const EmulatedOptions&, const EmulatedOptions&) = default;
};

/// The means by which messages travel between GPUs.
enum class CudaTransport : std::uint8_t {
  nccl,  ///< a communicator for each one of the Program; one rank on a device
  copy,  ///< copies between the devices, or parts of one, of one host; streamed in one process or several
};

/// Ranks that compute on GPUs. Processes of several hosts need NCCL between them; those of a host take its
/// devices in the order of their local numbers, unless each sees no more than it needs. The model needs
/// on_gpu(). A device does not say whether it waits or hangs: a step that hangs is aborted at its deadline
/// and reported.
struct CudaOptions {
  CudaTransport transport = CudaTransport::nccl;
  int ranks_per_device = 1;  ///< above 1 each rank has as many multiprocessors of the device (green contexts)
  /// A step is one CUDA graph per rank, with copies one of all ranks; else its instructions are enqueued one
  /// by one.
  bool graphs = false;
  bool profile = true;  ///< records when each instruction starts and ends; without, traces are empty
  /// A host thread for each rank enqueues its instructions; else, and for one graph of all, one thread.
  bool host_threads = true;
  bool one_hardware_queue =
      false;         ///< CUDA_DEVICE_MAX_CONNECTIONS=1: with NCCL all that a rank runs starts in host order
  int max_ctas = 4;  ///< blocks of a communicator's kernels: receives that are posted early stay resident
  std::string cuda_library = {};  ///< path of the driver; empty: $PPSIM_CUDA_LIBRARY, else libcuda.so.1
  std::string nccl_library = {};  ///< path of NCCL; empty: $PPSIM_NCCL_LIBRARY, else libnccl.so.2
  friend bool operator==(const CudaOptions&, const CudaOptions&) = default;
};

/// The backend of a run with its options.
using BackendOptions = std::variant<CpuOptions, EmulatedOptions, CudaOptions>;
/// "cpu", "emulated", "cuda".
[[nodiscard]] std::string_view backend_name(const BackendOptions& backend);

/// The time that a step may take where nobody sets one: the first one `first_s`, every other one `times` as
/// long as the first one took, and `more_s` more. Where processes meet before the first step and after the
/// last one they wait for each other for `meeting_s`.
struct DeadlineRule {
  double first_s = 600;
  double times = 10;
  double more_s = 30;
  double meeting_s = 600;
  friend bool operator==(const DeadlineRule&, const DeadlineRule&) = default;
};

/// The options of a run.
struct RunOptions {
  BackendOptions backend = CpuOptions{};
  /// Of the transport between the ranks, which are threads of this process: rendezvous, or credits(n)
  /// for any n >= 1, with the messages that are out in buffers of the transport. It has no residency limit,
  /// and captures no graphs. Of GPUs the launches are what capabilities_of() says.
  TransportCapabilities capabilities = rendezvous();
  const Certificate* certificate = nullptr;
  std::string certificate_file = {};  ///< where it is from, for errors
  bool unverified = false;            ///< run without a certificate
  int steps = 1;
  int kept_traces = 0;  ///< of the newest steps; 0: of all
  /// Longest time of one step, with what processes do together before and after it: a safety net beside the
  /// exact detection of hangs. 0: none; empty: by the rule. See also timeout_of().
  std::optional<double> deadline_s = std::nullopt;
  DeadlineRule deadline_rule = {};
  /// Told of a step that passes its deadline on the CPU of one process, before the actions that still compute
  /// are waited for: they cannot be stopped, but a program can end here.
  std::function<void(const Error&)> when_late = {};
  /// Of each rank's device: a pool above it is refused, though what is alive at once might fit.
  std::optional<Bytes> memory_limit = std::nullopt;
  /// Of every action of the Program how long it takes in a step, in the order of Program::all_actions(): of
  /// an instruction that computes under its first one, the same for both ends of a message and for all
  /// members of a collective. On the CPU it is complete no earlier, and later where it computes longer.
  /// Empty: what the table says of an emulated device, what it computes on the CPU. Steps count from 0;
  /// processes that share the ranks say the same. Not of GPUs.
  std::function<std::vector<Nanoseconds>(int step)> action_times = {};
  double clip_norm = 1.0;  ///< largest norm of the gradients where the Program has COLL "norm"
  /// The processes that share the ranks, as many to each and in their order, with the transport between them;
  /// null: this one alone. All of them execute the same.
  Bootstrap* processes = nullptr;
  bool poison = false;    ///< overwrite freed tensors, so that a use after the last one shows in the results
  bool gradients = true;  ///< hand them out; a GPU run without them needs no pinned memory for them
  /// Of products on GPUs: those that it lacks are timed before the first step, by process 0 for all, and
  /// added. Null: a library's first suggestion for each.
  Algorithms* algorithms = nullptr;
  /// Called where they were timed, whenever one was added, so that an interrupted run keeps those that it
  /// has.
  std::function<void()> algorithm_added = {};
};

/// The gradients of a block that one rank holds: of its own stages, or the sum over the ranks after
/// REDUCE_GRAD.
struct BlockGradients {
  BlockId block;
  RankId rank;
  int update = 0;
  bool reduced = false;
  std::vector<std::byte> values = {};
  friend bool operator==(const BlockGradients&, const BlockGradients&) = default;
};

/// One process of a run, and how its clock was brought in line with that of process 0.
struct ProcessFigures {
  RankId first_rank;
  int ranks = 0;
  ClockOffset clock;
  friend bool operator==(const ProcessFigures&, const ProcessFigures&) = default;
};

/// Host time of enqueuing a GPU run, all steps and ranks together; waiting does not count.
struct HostTime {
  Nanoseconds issue_ns = 0;
  Nanoseconds work_ns = 0;   ///< of these in the actions' own kernels and copies; of a graph nothing is known
  std::int64_t actions = 0;  ///< that were enqueued

  HostTime& operator+=(const HostTime& other) {
    issue_ns += other.issue_ns;
    work_ns += other.work_ns;
    actions += other.actions;
    return *this;
  }
  friend bool operator==(const HostTime&, const HostTime&) = default;
};

enum class RunOutcome : std::uint8_t { finished, deadlock };

struct RunResult {
  RunOutcome outcome = RunOutcome::finished;
  /// One per step that is kept, the last one cut short by a deadlock: Instant{-1,0} is what did not happen.
  std::vector<TimedTrace> traces;
  std::vector<Nanoseconds> step_ns;  ///< first start to last end, one per finished step
  /// Per finished step, of all microbatches together, before the step's updates. 0 from a model that has
  /// none. Order of the sum: microbatches as their weight gradients are accumulated, then blocks, updates and
  /// ranks; bit-equal where the gradients of the last stage are.
  std::vector<double> losses;
  IdVector<RankId, Bytes> pool_bytes;
  IdVector<RankId, Bytes> high_water_bytes;  ///< most bytes of tensors alive at once; 0 where not timed
  /// Of the last step, before OPT where there is one. Order: block, update, rank. Empty after a deadlock.
  /// Nor where they were not asked for.
  std::vector<BlockGradients> gradients;
  HostTime host;                          ///< of a GPU run
  std::vector<Wait> hang;                 ///< everything that the heads of the queues wait for, rank by rank
  std::vector<ProcessFigures> processes;  ///< empty for a run in one process

  /// Requires: not empty, which no result of execute() is.
  [[nodiscard]] const TimedTrace& trace() const { return traces.back(); }
};

/// The time that a process waits for the others where they meet before the first step and after the last one:
/// for the deadline that is given, but 10 s at least, for what takes milliseconds starts in seconds; where
/// there is none or 0 is given, by the rule.
[[nodiscard]] Timeout timeout_of(const RunOptions& options);
/// Bytes of every tensor class of a model on what it runs on: kernels may lay them out otherwise.
[[nodiscard]] SizeTable sizes_on(const BackendOptions& backend, const StageModel& model,
                                 const Pipeline& pipeline);

/// The ranks of this process: [begin, end).
struct LocalRanks {
  int begin = 0;
  int end = 0;
  [[nodiscard]] bool has(RankId rank) const { return rank.value() >= begin && rank.value() < end; }
};

/// A run whose Program, model and options fit each other and the backend, on all of its processes. Its proof
/// is left to check, and what it would tell: that all messages match, and of a graph that the Program ends.
class PreparedRun {
 public:
  /// Model, options and, unless `analyzed` has its own, the Program must outlive it. Requires: a Program
  /// analyzed on the transport of the run, capabilities_of(). Errors: that of `checked`, by which a caller
  /// tells all processes why this one cannot run; bad_argument for what the model, the backend or the
  /// transport cannot do, and for options out of their domain; refused naming the first process that is about
  /// to run something else than process 0; io when a process is gone or does not come. An error of one
  /// process is an error of all.
  [[nodiscard]] static Expected<PreparedRun> make(const AnalyzedProgram& analyzed, const StageModel& model,
                                                  const RunOptions& options, Expected<void> checked = {});

  [[nodiscard]] const AnalyzedProgram& analyzed() const { return analyzed_; }
  [[nodiscard]] const Program& program() const { return analyzed_.program(); }
  [[nodiscard]] const StageModel& model() const { return *model_; }
  [[nodiscard]] const RunOptions& options() const { return *options_; }
  [[nodiscard]] const SizeTable& sizes() const { return sizes_; }  ///< on what it runs on
  [[nodiscard]] LocalRanks here() const { return here_; }

 private:
  PreparedRun(AnalyzedProgram analyzed, const StageModel& model, const RunOptions& options)
      : analyzed_(std::move(analyzed)), model_(&model), options_(&options) {}
  Expected<void> check();

  AnalyzedProgram analyzed_;
  const StageModel* model_;
  const RunOptions* options_;
  SizeTable sizes_;
  LocalRanks here_;
};

/// Runs a Program on threads of this process, one for each queue in use of each rank, with the arithmetic of
/// `model`. All tensors live in one pool per rank that is allocated once by the slot plan. A hang is
/// recognised when every thread waits and nothing is in flight, not by a time limit. With CudaOptions queues
/// are streams of GPUs, and a hang is what is not done when the deadline has passed.
///
/// With several processes each runs its ranks, and process 0 gets the result of all, times on its clock; the
/// others get their own. If one fails, is late, dies or does not answer, all stop: process 0 with what all
/// waited for at that moment and who did not say it, the others with the reason, and where process 0 is
/// missing with what they wait for themselves.
///
/// A compute action gets the first block of its stage, the first producer's x and the first consumer's dy; a
/// model that needs more refuses the pipeline in check().
/// Errors: refused without a certificate of this Program, its sizes and this transport, unless `unverified`;
/// does_not_fit naming the rank whose pool is the largest above the limit;
/// bad_argument for what the transport cannot do; ill_formed when two ends that meet name
/// different tensors, and for a tensor that no action makes; io when memory or threads run out, or the
/// deadline passes.
/// `certificate` is checked unless the run is unverified; it may be null then.
[[nodiscard]] Expected<RunResult> execute(const PreparedRun& run, const Certificate* certificate);
/// The same with the certificate of the options. Errors: those of PreparedRun::make() as well.
[[nodiscard]] Expected<RunResult> execute(const Program& program, const StageModel& model,
                                          const RunOptions& options);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::backend_name;
using gpu_backend::BackendOptions;
using gpu_backend::BlockGradients;
using gpu_backend::CpuOptions;
using gpu_backend::CudaOptions;
using gpu_backend::CudaTransport;
using gpu_backend::DeadlineRule;
using gpu_backend::EmulatedOptions;
using gpu_backend::execute;
using gpu_backend::HostTime;
using gpu_backend::LocalRanks;
using gpu_backend::PreparedRun;
using gpu_backend::ProcessFigures;
using gpu_backend::RunOptions;
using gpu_backend::RunOutcome;
using gpu_backend::RunResult;
using gpu_backend::sizes_on;
using gpu_backend::timeout_of;
}  // namespace ppsim

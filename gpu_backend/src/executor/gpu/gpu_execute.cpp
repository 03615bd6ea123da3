#include "gpu_execute.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <new>

#include "executor/kept_traces.hpp"
#include "executor/memory/memory_plan.hpp"
#include "executor/watch/hang_report.hpp"
#include "gpu_ranks.hpp"
#include "gpu_states.hpp"
#include "open_channels.hpp"
#include "pin_algorithms.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "process_group/peers.hpp"
#include "rank_run.hpp"
#include "streams/hardware_queues.hpp"
#include "streams/issue.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr Nanoseconds kAbortTime = 10'000'000'000;
constexpr Nanoseconds kTimingTime = 60'000'000'000;
/// The waits that streams and events have to keep, whatever else delays launches.
TransportCapabilities independent_queues(TransportCapabilities capabilities) {
  capabilities.launches = capabilities.guaranteed_launches = {};
  return capabilities;
}

/// The order that every NCCL keeps: a SEND may be over before its RECV has started, so nothing about the
/// receiver follows from it.
TransportCapabilities unbounded_buffers(const TransportCapabilities& capabilities) {
  TransportCapabilities result = independent_queues(capabilities);
  result.credits = kUnlimitedCredits;
  return result;
}

/// Runs the steps of one Program on the GPUs of one process.
class GpuExecutor {
 public:
  GpuExecutor(const GpuApi& api, const PreparedRun& run)
      : api_(api),
        model_(*run.model().on_gpu()),
        options_(run.options()),
        cuda_options_(std::get<CudaOptions>(options_.backend)),
        program_(run.program()),
        analyzed_(run.analyzed()),
        memory_(plan_memory({program_, unbounded_buffers(analyzed_.capabilities())}, run.sizes(),
                            options_.memory_limit)),
        deadline_(options_),
        peers_({program_, analyzed_.graph(), run.here(), options_.processes, timeout_of(options_)}),
        ranks_(api.cuda, options_, run.here()),
        tensors_(program_, memory_, run.sizes(), ranks_.make_pools(memory_.slots)) {
    try {
      open(run);
    } catch (const std::exception& failure) {
      peers_.stop_unbegun(error_of(failure));  // others may hold what this one is about to free
      throw;
    }
  }

  RunResult run() {
    RunResult result;
    result.pool_bytes = memory_.slots.pool_bytes;
    result.high_water_bytes = IdVector<RankId, Bytes>(result.pool_bytes.size(), 0);
    try {
      run_steps(result);
    } catch (const BackendError& failure) {
      end_early(failure.error(), result);
      return result;
    } catch (const std::exception& failure) {
      peers_.stop_unbegun(error_of(failure));
      stop_devices();
      throw;
    }
    result.gradients = all_gradients(actions_);
    for (const RankRun& run : runs_) result.host += run.host_time();
    channels_->leave();
    peers_.collect(result, begins_);  // nobody frees anything before all have left
    return result;
  }

  /// Whether nothing of this run is left on the devices. Else nothing of it may be freed: that would wait for
  /// the device.
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  void open(const PreparedRun& run) {
    const ActionInput actions{program_, model_, options_, tensors_};
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      stages_.push_back(open_stages(ranks_[r]));
      actions_.emplace_back(actions, ranks_[r], *stages_[r]);
      collectives_.emplace_back(actions, model_, GpuRank{ranks_[r], *stages_[r], actions_[r]});
    }
    make_plans();
    check_hardware_queues(api_.environment, cuda_options_, plans_, RankId(run.here().begin));
    peers_.assemble();  // all have got what they need
    if (options_.algorithms != nullptr)
      pin_algorithms(
          {api_, ranks_, stages_, peers_, options_.processes, kTimingTime, options_.algorithm_added},
          *options_.algorithms);
    channels_ = open_channels({api_, program_, model_, cuda_options_, ranks_.all(), actions_, collectives_,
                               analyzed_.graph(), peers_});
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      runs_.emplace_back(RankSetup{api_, program_, plans_[r], ranks_[r], actions_[r], collectives_[r],
                                   *channels_, cuda_options_.profile, cuda_options_.graphs});
    }
  }

  [[nodiscard]] std::unique_ptr<GpuStages> open_stages(const RankDevice& device) const {
    device.make_current();
    try {
      return model_.open(program_.pipeline(), device.place());
    } catch (const BackendError& failure) {
      throw error_of(device.rank(), "opening its stages", failure);
    }
  }

  void make_plans() {
    const AnalyzedProgram independent(program_, independent_queues(options_.capabilities));
    if (together()) {
      const auto all = plan_ranks_together(program_, independent.graph(), independent.order());
      for (const RankDevice* const device : ranks_.all()) plans_.push_back(all[device->rank().index()]);
      return;
    }
    for (const RankDevice* const device : ranks_.all())
      plans_.push_back(plan_streams(program_, independent.graph(), device->rank()));
  }

  /// Whether the hosts of all ranks enqueue what these exchange, in one order.
  [[nodiscard]] bool together() const { return cuda_options_.transport == CudaTransport::copy; }

  void run_steps(RunResult& result) {
    for (RankRun& run : runs_) run.warm_up();
    wait_until_idle("loading the kernels");
    const bool one_graph = cuda_options_.graphs && together();
    Issuer issuer({runs_, api_.clock, *channels_, peers_, one_graph}, cuda_options_.host_threads);
    if (cuda_options_.graphs) capture(issuer);
    for (int step = 0; step < options_.steps; ++step) run_step(step, issuer, result);
    prepare([&](std::size_t r, GpuStream stream) { actions_[r].end_run(stream); });
  }

  /// Enqueues work between steps on every rank and waits for it.
  template <class Work>
  void prepare(const Work& work) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      runs_[r].prepare([&](GpuStream stream) { work(r, stream); });
    }
    wait_until_idle("the work between two steps");
  }

  void capture(Issuer& issuer) {
    const bool optimizes = program_.has(OpKind::optimizer);
    for (const bool takes : {false, true}) {
      if (takes && !optimizes) break;
      channels_->begin_step();
      const bool left = issuer.capture(takes, deadline());
      peers_.throw_if_stopped();
      if (!left || !all_captured())
        throw BackendError(ErrorCode::io, "capturing a step did not finish within its deadline");
      for (RankRun& run : runs_) run.make_graph(takes);
    }
    wait_until_idle("loading the graphs");
  }

  void run_step(int step, Issuer& issuer, RunResult& result) {
    peers_.begin_step(step, deadline_);
    const bool last = step + 1 == options_.steps;
    api_.marks.push("PP:prepare");
    prepare([&](std::size_t r, GpuStream stream) {
      actions_[r].begin_step(step, stream, memory_.table);
      if (step == 0) collectives_[r].begin_run(stream);
    });
    channels_->begin_step();
    api_.marks.pop();
    const Nanoseconds end = deadline();
    api_.marks.push("PP:step");
    in_step_ = true;
    const bool left = issuer.run_step(last, end);
    const bool complete = left && all_issued() && wait_quietly(end);
    api_.marks.pop();
    peers_.throw_if_stopped();
    if (!left) {
      // An instruction that was released looks complete.
      throw BackendError(
          ErrorCode::io,
          "a step did not finish within its deadline; a thread was held in a call by a full queue");
    }
    if (!complete || !nothing_left_out())
      throw BackendError(ErrorCode::deadlock, "a step did not finish within its deadline");
    channels_->check();
    read_times(result);
    result.losses.push_back(take_loss());
    peers_.assemble(deadline_);  // nobody goes on as long as another one may fail
    in_step_ = false;
  }

  /// The sum of the losses of a step.
  [[nodiscard]] double take_loss() {
    if (std::ranges::any_of(actions_, [](const auto& a) { return a.has_losses_left(); })) {
      prepare([&](std::size_t r, GpuStream stream) { actions_[r].end_step(stream); });
    }
    return sum_of_losses(actions_);
  }

  /// When the step that begins now is late.
  [[nodiscard]] Nanoseconds deadline() const {
    const auto limit = deadline_.limit();
    return limit ? api_.clock.now() + limit->count() : std::numeric_limits<Nanoseconds>::max();
  }

  [[nodiscard]] bool all_issued() const { return std::ranges::all_of(runs_, &RankRun::issued); }
  [[nodiscard]] bool all_captured() const { return std::ranges::all_of(runs_, &RankRun::has_captured); }
  [[nodiscard]] bool nothing_left_out() const { return std::ranges::all_of(plans_, &StreamPlan::complete); }

  /// Returns: false when the time is over.
  [[nodiscard]] bool wait_quietly(Nanoseconds end) {
    while (!all_complete(program_, runs_)) {
      if (api_.clock.now() >= end) return false;
      channels_->check();
      pause();
    }
    return true;
  }

  void wait_until_idle(const std::string& what) {
    const Nanoseconds end = deadline();
    for (const RankRun& run : runs_) {
      while (!run.idle()) {
        if (api_.clock.now() >= end) throw BackendError(ErrorCode::io, what + " took too long");
        pause();
      }
    }
  }

  /// Errors: throws what another process has stopped with.
  void pause() {
    peers_.throw_if_stopped();
    api_.clock.pause();
  }

  /// Stops all processes, and says what they wait for. Errors: throws what all have stopped with, unless it
  /// is a deadlock.
  void end_early(const Error& error, RunResult& result) {
    std::vector<InstructionState> states;
    if (!peers_.alone() || error.code == ErrorCode::deadlock) states = states_here();
    Error reason = peers_.stop(error);
    peers_.send_states(states, true);
    if (!peers_.alone() && peers_.leads()) states = peers_.last_states();
    stop_devices();
    if (!peers_.all_here()) reason.code = ErrorCode::io;
    if (reason.code == ErrorCode::deadlock) reason = why_not_deadlock(states).value_or(reason);
    if (reason.code != ErrorCode::deadlock) {
      reason = peers_.explained(std::move(reason));
      throw BackendError(reason.code, reason.message);
    }
    result.outcome = RunOutcome::deadlock;
    result.hang = peers_.alone() ? hang_report(program_, analyzed_.graph(), rank_queues(program_), states)
                                 : peers_.report();
    keep_trace(result.traces, options_.kept_traces, {.spans = no_spans()});
  }

  /// The states by the events; empty outside of a step, or where a device does not answer.
  [[nodiscard]] std::vector<InstructionState> states_here() const {
    try {
      if (in_step_) return read_states(program_, analyzed_.graph(), runs_);
    } catch (const BackendError&) {
      // The failed call says why.
    }
    return std::vector<InstructionState>(program_.size(), InstructionState::waiting);
  }

  /// The reason, other than a deadlock, that keeps a step from finishing.
  [[nodiscard]] std::optional<Error> why_not_deadlock(const std::vector<InstructionState>& states) const {
    const auto running = running_action(program_, states);
    if (!running) return std::nullopt;
    return Error{ErrorCode::io, "a step did not finish within its deadline; still running: rank " +
                                    std::to_string(program_.rank_of(*running).value()) + ": " +
                                    actions_text(program_, *running)};
  }

  /// Ends everything on the devices, so that nothing is destroyed in use.
  void stop_devices() {
    for (RankRun& run : runs_) {
      run.abandon_capture();  // a thread that captures must not free anything, as the end of a communicator
                              // does
      run.drop_graphs();
    }
    channels_->abort();
    const Nanoseconds end = api_.clock.now() + kAbortTime;
    for (const RankRun& run : runs_) {
      const auto stopped = [&] { return run.stopped() && channels_->stopped(); };
      while (!stopped() && api_.clock.now() < end) {
        channels_->release();
        api_.clock.pause();
      }
      stopped_ = stopped_ && stopped();
    }
  }

  [[nodiscard]] TimedTrace::Spans no_spans() const {
    return TimedTrace::Spans(program_.size(), Span{{-1, 0}, {-1, 0}});
  }

  void read_times(RunResult& result) {
    // Ranks of a device have one clock, which tells their times to each other better than the host's.
    const auto zero_of = [&](const RankRun& run) -> const RankRun& {
      return *std::ranges::find(runs_, run.device(), &RankRun::device);
    };
    Nanoseconds first = runs_.front().origin();
    for (const RankRun& run : runs_) first = std::min(first, run.start_time(zero_of(run)));
    TimedTrace trace{.spans = no_spans()};
    Nanoseconds longest = 0;
    for (const RankRun& run : runs_) {
      const RankRun& zero = zero_of(run);
      const Nanoseconds origin = zero.origin() - first;
      longest = std::max(longest, origin + run.step_time(zero));
      if (cuda_options_.profile) run.read_times(trace, analyzed_.graph().capabilities.launches, zero, origin);
    }
    result.step_ns.push_back(longest);
    deadline_.took(longest);
    begins_.push_back({first, 0});
    if (cuda_options_.profile) {
      const auto profiles = replay_memory(program_, trace, memory_.table, memory_.sizes);
      for (const RankDevice* const device : ranks_.all()) {
        Bytes& most = result.high_water_bytes[device->rank()];
        most = std::max(most, profiles[device->rank()].peak_bytes);
      }
    }
    keep_trace(result.traces, options_.kept_traces, std::move(trace));
  }

  const GpuApi& api_;
  const GpuStageModel& model_;
  const RunOptions& options_;
  const CudaOptions& cuda_options_;
  const Program& program_;
  const AnalyzedProgram& analyzed_;
  MemoryPlan memory_;
  StepDeadline deadline_;
  Peers peers_;
  // Members below hold those above them, and are destroyed in the opposite order.
  GpuRanks ranks_;
  TensorMap tensors_;
  std::vector<std::unique_ptr<GpuStages>> stages_;
  std::deque<RankActions> actions_;
  std::deque<GpuCollectives> collectives_;
  std::vector<StreamPlan> plans_;
  std::unique_ptr<GpuChannels> channels_;
  std::deque<RankRun> runs_;
  std::vector<StepBegin> begins_;  ///< per step
  bool in_step_ = false;           ///< instructions of a step have events
  bool stopped_ = true;
};

/// Keeps resources that a device still uses for ever, where leak checkers see them.
void leak_if_busy(GpuExecutor* executor) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<GpuExecutor*>();  // never destroyed
  const std::unique_ptr<GpuExecutor> own(executor->stopped() ? executor : nullptr);
  if (own) return;
  const std::scoped_lock lock(mutex);
  kept.push_back(executor);
}

}  // namespace

Expected<RunResult> execute_on_gpu(const GpuApi& api, const PreparedRun& run) {
  try {
    const std::unique_ptr<GpuExecutor, void (*)(GpuExecutor*)> executor(new GpuExecutor(api, run),
                                                                        leak_if_busy);
    return executor->run();
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::io, "not enough host memory to run the program");
  }
}

Expected<RunResult> execute_on_gpu(const PreparedRun& run) {
  try {
    return execute_on_gpu(open_gpu_api(std::get<CudaOptions>(run.options().backend)), run);
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  }
}

}  // namespace ppsim::gpu_backend

#include "gpu_execute.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <new>
#include <numeric>
#include <thread>
#include <tuple>

#include "cuda/copy_channels.hpp"
#include "cuda/gpu_admission.hpp"
#include "cuda/gpu_states.hpp"
#include "cuda/nccl_channels.hpp"
#include "cuda/rank_run.hpp"
#include "hang_report.hpp"
#include "memory_plan.hpp"
#include "ppsim/core/text.hpp"
#include "ppsim/gpu_backend/device.hpp"
#include "transfers.hpp"

namespace ppsim {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
/// A device cannot tell waiting from hanging, so that every step has a deadline.
constexpr double kDefaultDeadline = 600;
constexpr double kLongestDeadline = 1e9;
constexpr double kAbortTime = 10;

/// The order that every NCCL keeps: a SEND may be over before its RECV has started, so nothing about the
/// receiver follows from it.
TransportCapabilities unbounded_buffers(const TransportCapabilities& capabilities) {
  TransportCapabilities result = capabilities;
  result.credits = std::numeric_limits<int>::max();
  return result;
}

/// Runs the steps of one Program on the GPUs of one process.
class GpuExecutor {
 public:
  GpuExecutor(const GpuApi& api, const GpuRunInput& input)
      : api_(api),
        in_(input),
        options_(std::get<CudaOptions>(input.options.backend)),
        program_(input.program),
        sizes_(input.model.sizes(program_.pipeline())),
        graph_(build_execution_graph(program_, input.options.capabilities)),
        memory_(plan_memory(program_,
                            build_execution_graph(program_, unbounded_buffers(input.options.capabilities)),
                            sizes_)) {
    open_devices();
    tensors_ = std::make_unique<TensorMap>(program_, memory_, sizes_, make_pools());
    for (auto& device : ranks_) actions_.emplace_back(in_, *tensors_, *device);
    for (auto& device : ranks_) plans_.push_back(plan_streams(program_, graph_, device->rank()));
    open_channels();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      runs_.emplace_back(RankSetup{api_, program_, plans_[r], *ranks_[r], actions_[r], *channels_,
                                   options_.profile, options_.graphs});
    }
  }

  RunResult run() {
    RunResult result;
    result.pool_bytes = memory_.slots.pool_bytes;
    result.high_water_bytes = IdVector<RankId, Bytes>(ranks_.size(), 0);
    try {
      if (options_.graphs) capture();
      for (int step = 0; step < in_.options.steps; ++step) {
        if (!run_step(step, result)) return result;
      }
      prepare([&](std::size_t r, GpuStream stream) { actions_[r].end_run(stream); });
    } catch (...) {
      stop();
      throw;
    }
    collect_gradients(result);
    return result;
  }

 private:
  void open_devices() {
    int count = 0;
    check_cuda(api_.cuda, api_.cuda.device_count(&count), "counting devices");
    const int share = options_.ranks_per_device;
    const int needed = (program_.pipeline().ranks() + share - 1) / share;
    if (count < needed) {
      throw BackendError(ErrorCode::bad_argument, std::to_string(program_.pipeline().ranks()) + " ranks, " +
                                                      std::to_string(share) + " on a device, need " +
                                                      std::to_string(needed) + " devices; there are " +
                                                      std::to_string(count));
    }
    for (int d = 0; d < needed; ++d) devices_.emplace_back(api_.cuda, d, share);
    for (int r = 0; r < program_.pipeline().ranks(); ++r) {
      ranks_.push_back(
          std::make_unique<RankDevice>(devices_[static_cast<std::size_t>(r / share)], RankId(r), r % share));
    }
  }

  std::vector<std::span<std::byte>> make_pools() {
    std::vector<std::span<std::byte>> pools;
    for (auto& device : ranks_) {
      pools.push_back(device->allocate(memory_.slots.pool_bytes[device->rank()], "its pool"));
    }
    return pools;
  }

  void open_channels() {
    std::vector<RankDevice*> ranks;
    for (auto& device : ranks_) ranks.push_back(device.get());
    if (options_.transport == CudaTransport::copy) {
      find_destinations();
      channels_ = std::make_unique<CopyChannels>(api_, program_, ranks, destinations_);
      return;
    }
    const auto new_id = [this] {
      NcclUniqueId id;
      check_nccl(api_.nccl, api_.nccl.unique_id(&id), "a new communicator");
      return id;
    };
    channels_ = std::make_unique<NcclChannels>(NcclSetup{api_, program_, ranks, new_id, options_.max_ctas});
  }

  void find_destinations() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const StreamStep& step : plans_[r].steps) {
        if (!is_transfer(program_.actions(step.id).front().kind)) continue;
        for (const Transfer& end : actions_[r].transfers(step.id)) {
          std::vector<Payload>& receives = destinations_[end.channel];
          if (end.direction == Direction::receive) receives.push_back(end.payload);
        }
      }
    }
  }

  /// Enqueues work between steps on every rank and waits for it.
  template <class Work>
  void prepare(const Work& work) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      runs_[r].prepare([&](GpuStream stream) { work(r, stream); });
    }
    wait_until(
        deadline(), [&](RankRun& run) { return run.idle(); }, "the work between two steps");
  }

  void capture() {
    const bool optimizes = std::any_of(program_.all_actions().begin(), program_.all_actions().end(),
                                       [](const Action& a) { return a.kind == OpKind::optimizer; });
    for (const bool takes : {false, true}) {
      if (takes && !optimizes) break;
      channels_->begin_step();
      for (RankRun& run : runs_) {
        run.begin_capture(takes);
        while (!run.issued()) {
          if (!run.advance()) api_.clock.pause();
        }
        run.end_capture(takes);
      }
    }
    wait_until(
        deadline(), [](RankRun& run) { return run.idle(); }, "loading the graphs");
  }

  /// Returns: false after a deadlock.
  bool run_step(int step, RunResult& result) {
    const bool last = step + 1 == in_.options.steps;
    api_.marks.push("PP:prepare");
    prepare([&](std::size_t r, GpuStream stream) { actions_[r].begin_step(step, stream, memory_.table); });
    channels_->begin_step();
    api_.marks.pop();
    const Nanoseconds end = deadline();
    api_.marks.push("PP:step");
    for (RankRun& run : runs_) run.begin_step(last);
    issue(end);
    const bool complete = all_issued() && wait_quietly(end);
    api_.marks.pop();
    if (!complete || !nothing_left_out()) {
      stop_on_hang(result);
      return false;
    }
    channels_->check();
    read_times(result);
    result.losses.push_back(take_loss());
    return true;
  }

  /// The sum of the losses of a step; in the same order whichever rank has them.
  [[nodiscard]] double take_loss() {
    if (std::any_of(actions_.begin(), actions_.end(), [](const auto& a) { return a.has_losses_left(); })) {
      prepare([&](std::size_t r, GpuStream stream) { actions_[r].end_step(stream); });
    }
    std::vector<BlockLoss> losses;
    for (const GpuActions& actions : actions_) {
      for (const BlockLoss& one : actions.losses()) losses.push_back(one);
    }
    std::sort(losses.begin(), losses.end(), [](const BlockLoss& a, const BlockLoss& b) {
      return std::tuple(a.block, a.update, a.rank) < std::tuple(b.block, b.update, b.rank);
    });
    return std::accumulate(losses.begin(), losses.end(), 0.0,
                           [](double sum, const BlockLoss& one) { return sum + one.loss; });
  }

  [[nodiscard]] Nanoseconds deadline() const {
    const double wanted = in_.options.deadline_s == 0 ? kDefaultDeadline : in_.options.deadline_s;
    const double seconds = std::min(wanted, kLongestDeadline);
    return api_.clock.now() + static_cast<Nanoseconds>(seconds * kNanosecondsPerSecond);
  }

  /// Enqueues the step, with a host thread for each rank or with one for all.
  void issue(Nanoseconds end) {
    if (!options_.host_threads) return issue_together(end);
    std::vector<std::exception_ptr> failures(runs_.size());
    std::atomic<bool> failed = false;
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < runs_.size(); ++r) {
        threads.emplace_back([&, r] {
          try {
            while (!failed && !runs_[r].issued() && api_.clock.now() < end) {
              if (!runs_[r].advance()) api_.clock.pause();
            }
          } catch (...) {
            failures[r] = std::current_exception();
            failed = true;  // the others would wait for it
          }
        });
      }
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  void issue_together(Nanoseconds end) {
    while (!all_issued() && api_.clock.now() < end) {
      bool moved = false;
      for (RankRun& run : runs_) moved = run.advance() || moved;
      if (!moved) api_.clock.pause();
    }
  }

  [[nodiscard]] bool all_issued() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const RankRun& run) { return run.issued(); });
  }
  [[nodiscard]] bool nothing_left_out() const {
    return std::all_of(plans_.begin(), plans_.end(), [](const StreamPlan& plan) { return plan.complete; });
  }

  /// Returns: false when the time is over.
  bool wait_quietly(Nanoseconds end) {
    for (RankRun& run : runs_) {
      while (!run.complete()) {
        if (api_.clock.now() >= end) return false;
        channels_->check();
        api_.clock.pause();
      }
    }
    return true;
  }

  template <class Done>
  void wait_until(Nanoseconds end, const Done& done, const std::string& what) {
    for (RankRun& run : runs_) {
      while (!done(run)) {
        if (api_.clock.now() >= end) throw BackendError(ErrorCode::io, what + " took too long");
        api_.clock.pause();
      }
    }
  }

  /// Says what a step that did not finish waits for, and ends it.
  void stop_on_hang(RunResult& result) {
    const std::vector<InstructionState> states = read_states(program_, graph_, runs_);
    if (const auto running = running_action(program_, states)) {
      throw BackendError(ErrorCode::io, "a step did not finish within its deadline; still running: rank " +
                                            std::to_string(program_.rank_of(*running).value()) + ": " +
                                            actions_text(program_, *running));
    }
    result.outcome = RunOutcome::deadlock;
    result.hang = hang_report(graph_, make_lanes(program_), states);
    result.traces.push_back(TimedTrace{.spans = no_spans()});
    stop();
  }

  /// Ends everything on the devices, so that nothing is destroyed in use.
  void stop() {
    channels_->abort();
    for (RankRun& run : runs_) run.abandon_capture();
    const Nanoseconds end = api_.clock.now() + static_cast<Nanoseconds>(kAbortTime * kNanosecondsPerSecond);
    for (const RankRun& run : runs_) {
      while (!run.stopped() && api_.clock.now() < end) api_.clock.pause();
    }
  }

  [[nodiscard]] IdVector<InstructionId, Span> no_spans() const {
    return IdVector<InstructionId, Span>(program_.size(), Span{{-1, 0}, {-1, 0}});
  }

  void read_times(RunResult& result) {
    Nanoseconds first = runs_.front().origin();
    for (const RankRun& run : runs_) first = std::min(first, run.origin());
    TimedTrace trace{.spans = no_spans()};
    Nanoseconds longest = 0;
    for (const RankRun& run : runs_) {
      longest = std::max(longest, run.origin() - first + run.step_time());
      if (options_.profile) run.read_times(trace, run.origin() - first);
    }
    result.step_ns.push_back(longest);
    if (options_.profile) {
      const auto profiles = replay_memory(program_, trace, memory_.table, memory_.sizes);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const RankId rank(static_cast<std::int32_t>(r));
        result.high_water_bytes[rank] = std::max(result.high_water_bytes[rank], profiles[rank].peak_bytes);
      }
    }
    result.traces.push_back(std::move(trace));
  }

  void collect_gradients(RunResult& result) const {
    for (const GpuActions& actions : actions_) {
      for (BlockGradients& one : actions.gradients()) result.gradients.push_back(std::move(one));
    }
    std::sort(result.gradients.begin(), result.gradients.end(),
              [](const BlockGradients& a, const BlockGradients& b) {
                return std::tuple(a.block, a.update, a.rank) < std::tuple(b.block, b.update, b.rank);
              });
  }

  const GpuApi& api_;
  const GpuRunInput& in_;
  const CudaOptions& options_;
  const Program& program_;
  SizeTable sizes_;
  ExecutionGraph graph_;
  MemoryPlan memory_;
  // What follows holds what stands above it, and goes in the opposite order.
  std::deque<GpuDevice> devices_;
  std::vector<std::unique_ptr<RankDevice>> ranks_;
  std::unique_ptr<TensorMap> tensors_;
  std::deque<GpuActions> actions_;
  std::vector<StreamPlan> plans_;
  Destinations destinations_;
  std::unique_ptr<GpuChannels> channels_;
  std::deque<RankRun> runs_;
};

}  // namespace

Expected<RunResult> execute_on_gpu(const GpuApi& api, const GpuRunInput& input) {
  if (auto good = admit_on_gpu(input); !good) return tl::unexpected(good.error());
  try {
    return GpuExecutor(api, input).run();
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::io, "not enough host memory to run the program");
  }
}

Expected<RunResult> execute_on_gpu(const GpuRunInput& input) {
  if (auto good = admit_on_gpu(input); !good) return tl::unexpected(good.error());
  const auto& options = std::get<CudaOptions>(input.options.backend);
  try {
    GpuApi api{.cuda = load_cuda(options.cuda_library), .marks = profiler_marks(), .clock = host_clock()};
    check_cuda(api.cuda, api.cuda.init(0), "starting the CUDA driver");
    if (options.transport == CudaTransport::nccl) api.nccl = load_nccl(options.nccl_library);
    return execute_on_gpu(api, input);
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  }
}

}  // namespace ppsim

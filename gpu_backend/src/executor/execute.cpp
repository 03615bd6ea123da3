#include "ppsim/gpu_backend/executor/execute.hpp"

#include <algorithm>
#include <latch>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "admission.hpp"
#include "backend.hpp"
#include "executor/gpu/gpu_execute.hpp"
#include "kept_traces.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "process_group/agreement.hpp"
#include "process_group/team.hpp"
#include "process_group/transport_maker.hpp"
#include "watch/hang_report.hpp"
#include "watch/monitor.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Runs the steps of one Program on one backend.
class Executor {
 public:
  Executor(const Backend& backend, const RunInput& input, const PreparedRun& run)
      : program_(input.program),
        options_(input.options),
        times_(input.times),
        analyzed_(run.analyzed()),
        memory_(plan_memory(analyzed_, run.sizes(), options_.memory_limit)),
        queues_(rank_queues(program_, input.here.begin, input.here.end)),
        worker_(backend.make_worker(input, memory_)),
        meter_(program_, memory_, [this](std::uint32_t tensor) { freed(tensor); }),
        monitor_({program_, analyzed_.graph(), queues_, options_.processes == nullptr}, meter_),
        team_(input, analyzed_.graph(), monitor_),
        deadline_(options_) {
    team_.assemble();  // all have got what they need
    transport_ =
        team_.alone() ? backend.make_transport(input, monitor_) : make_process_transport(input, monitor_);
  }

  RunResult run() {
    RunResult result;
    for (int step = 0; step < options_.steps && result.outcome == RunOutcome::finished; ++step) {
      times_.begin_step(step);
      worker_->begin_step(step);
      result.outcome = run_step(step);
      keep_trace(result.traces, options_.kept_traces, monitor_.trace());
      if (result.outcome != RunOutcome::finished) break;
      const Extent extent = extent_of(result.trace());
      begins_.push_back({since_epoch(monitor_.origin()), extent.first});
      result.step_ns.push_back(extent.last - extent.first);
      deadline_.took(result.step_ns.back());
      result.losses.push_back(worker_->end_step());
    }
    if (result.outcome == RunOutcome::finished) {
      if (options_.gradients) result.gradients = worker_->gradients();
    } else {
      result.hang = team_.alone() ? hang_report(program_, analyzed_.graph(), queues_, monitor_.states())
                                  : team_.report();
    }
    result.pool_bytes = memory_.slots.pool_bytes;
    result.high_water_bytes = meter_.high_water();
    if (result.outcome == RunOutcome::finished) team_.collect(result, begins_);
    return result;
  }

 private:
  /// Each process notices by itself what completes on several of them together, perhaps after something
  /// that the others' end has made possible and that has the same bytes.
  void freed(std::uint32_t tensor) {
    const bool late = options_.poison && !team_.alone() && meter_.used_again(tensor);
    if (!late) worker_->freed(tensor);
  }

  RunOutcome run_step(int step) {
    team_.begin_step(step, deadline_);
    transport_->begin_step();
    StepEnd end{};
    Error error;
    bool started = true;
    monitor_.begin_step();
    {
      // Until the gate is open nothing here may throw: the threads would be waited for at the end of the
      // scope.
      std::latch gate(1);
      std::vector<std::jthread> threads;
      const std::exception_ptr failure = start_threads(threads, gate);
      started = failure == nullptr;
      monitor_.start_clock();
      team_.watch();
      if (!started) monitor_.fail(failure);
      gate.count_down();
      if (!started) threads.clear();  // whose memory is needed to tell
      end = team_.wait_for_end(deadline_);
      if (end == StepEnd::failed) error = team_.stop(failure_of_queue());
      if (end == StepEnd::late) {
        error = team_.stop(deadline_.late());
        if (team_.alone() && options_.when_late) options_.when_late(explained(error));
      }
      if (end == StepEnd::stopped) error = team_.stop_reason();
      if (end != StepEnd::finished) times_.interrupt();
    }
    if (end == StepEnd::finished) return RunOutcome::finished;
    if (end == StepEnd::deadlock || error.code == ErrorCode::deadlock) return RunOutcome::deadlock;
    report(error, started);
  }

  /// Why a step of this process has failed.
  [[nodiscard]] Error failure_of_queue() const {
    try {
      monitor_.rethrow();
    } catch (const BackendError& error) {
      return error.error();
    } catch (const std::bad_alloc&) {
      return {ErrorCode::io, "not enough memory to run the program"};
    }
  }

  /// With what every rank of this process waits for.
  [[nodiscard]] Error explained(Error error) {
    for (const Wait& wait : hang_report(program_, analyzed_.graph(), queues_, monitor_.snapshot().states))
      error.message += "\n" + to_string(wait);
    return error;
  }

  /// Adds what the processes wait for at the moment of a failure; where nothing has `started`, nothing does.
  [[noreturn]] void report(const Error& error, bool started) {
    if (!started) throw BackendError(error.code, error.message);
    const Error full = team_.alone() ? explained(error) : team_.explained(error);
    throw BackendError(full.code, full.message);
  }

  static Nanoseconds since_epoch(std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }

  /// Returns: why not all threads could be started; those that were run no instruction then.
  std::exception_ptr start_threads(std::vector<std::jthread>& threads, std::latch& gate) {
    // Made while there is memory for it, and before any thread.
    auto refusal = std::make_exception_ptr(
        BackendError(ErrorCode::io, "cannot start " + std::to_string(queues_.size()) +
                                        " threads, one for each queue of a rank: the system allows fewer"));
    try {
      threads.reserve(queues_.size());
      for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
        threads.emplace_back([this, queue, &gate] {
          gate.wait();
          run_queue(queue);
        });
      }
    } catch (const std::system_error&) {
      return refusal;
    } catch (const std::bad_alloc&) {
      return refusal;
    }
    return nullptr;
  }

  void run_queue(std::size_t queue) {
    try {
      for (const InstructionId id : queues_[queue].instructions) {
        if (!run_instruction(queue, id)) return;
      }
      monitor_.leave();
    } catch (...) {
      monitor_.fail(std::current_exception());
    }
  }

  /// Returns: false when the step is over.
  bool run_instruction(std::size_t queue, InstructionId id) {
    const ActionPlace place{queues_[queue].rank, id};
    const OpKind kind = program_.actions(id).front().kind;
    if (!monitor_.start(queue, id)) return false;
    if (!is_communication(kind)) {
      const auto started = WallClock::now();
      worker_->run(place);
      times_.wait(id, started);
      monitor_.complete({&id, 1});
      return true;
    }
    if (is_transfer(kind)) {
      transport_->post(worker_->transfers(place));
    } else {
      transport_->post(worker_->collective(place));
    }
    return monitor_.await(queue, id);
  }

  /// First start and last end of the instructions here; of none, 0.
  struct Extent {
    Nanoseconds first = 0;
    Nanoseconds last = 0;
  };
  static Extent extent_of(const TimedTrace& trace) {
    Extent extent{std::numeric_limits<Nanoseconds>::max(), 0};
    for (const Span& span : trace.spans) {
      if (span.start.time < 0) continue;  // on another process
      extent.first = std::min(extent.first, span.start.time);
      extent.last = std::max(extent.last, span.end.time);
    }
    return extent.first > extent.last ? Extent{} : extent;
  }

  const Program& program_;
  const RunOptions& options_;
  ActionTimes& times_;
  const AnalyzedProgram& analyzed_;
  MemoryPlan memory_;
  std::vector<RankQueue> queues_;
  std::unique_ptr<Worker> worker_;
  MemoryMeter meter_;
  Monitor monitor_;
  Team team_;
  StepDeadline deadline_;
  std::unique_ptr<Transport> transport_;
  std::vector<StepBegin> begins_;  ///< per finished step
};

Expected<RunResult> execute_here(const PreparedRun& run, const Certificate* certificate) {
  PPSIM_RETURN_IF_ERROR(admit(run, certificate));
  const RunOptions& options = run.options();
  if (std::holds_alternative<CudaOptions>(options.backend)) return execute_on_gpu(run);
  const std::unique_ptr<Backend> backend = make_backend(options.backend);
  try {
    ActionTimes times(run.program(), options);
    const RunInput input{run.program(), *run.model().on_cpu(), options, run.here(), times};
    return Executor(*backend, input, run).run();
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::io, "not enough memory to run the program");
  }
}

}  // namespace

Expected<const CpuStageModel*> arithmetic_of(const StageModel& model) {
  if (const CpuStageModel* const arithmetic = model.on_cpu()) return arithmetic;
  return make_error(ErrorCode::bad_argument, "this model has kernels and nothing for a CPU",
                    {.found = "a run or a reference on a CPU", .expected = "a GPU, and no comparison"});
}

SizeTable sizes_on(const BackendOptions& backend, const StageModel& model, const Pipeline& pipeline) {
  const bool kernels = std::holds_alternative<CudaOptions>(backend) && model.on_gpu() != nullptr;
  return kernels ? model.on_gpu()->sizes(pipeline) : model.sizes(pipeline);
}

Expected<RunResult> execute(const PreparedRun& run, const Certificate* certificate) {
  auto result = execute_here(run, certificate);
  end_together(run.options().processes, result ? nullptr : &result.error());
  return result;
}

Expected<RunResult> execute(const Program& program, const StageModel& model, const RunOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(const auto run,
                         PreparedRun::make({program, capabilities_of(options)}, model, options));
  return execute(run, options.certificate);
}

}  // namespace ppsim::gpu_backend

#include "support/gpu_probe/attention_times.hpp"

#include <algorithm>
#include <functional>

#include "device/cuda/device_memory.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/gpu/attention/flash_attention.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using cuda::AttentionPlans;

/// The tensors of attention, and its timing.
class AttentionClock {
 public:
  AttentionClock(const ProbeMachine& machine, const TransformerConfig& config, int parts)
      : machine_(machine), device_(machine.api.cuda, 0, parts), stream_(machine, device_, 0), sizes_(config) {
    const std::int64_t rows = sizes_.sequences * sizes_.sequence;
    const std::int64_t hidden = sizes_.hidden();
    const std::int64_t of_rows = sizes_.sequences * sizes_.heads * sizes_.sequence;
    memory_.joint = numbers(3 * rows * hidden);
    memory_.attended = numbers(rows * hidden);
    memory_.statistics = numbers(2 * of_rows);  // float32, in the space of two
    memory_.d_attended = numbers(rows * hidden);
    memory_.d_joint = numbers(3 * rows * hidden);
    memory_.sums = numbers(2 * of_rows);
  }

  /// The times of all plans.
  [[nodiscard]] AttentionTime time(const std::string& direction) {
    AttentionTime result{direction, {}};
    const bool forward = direction == "forward";
    for (int number = 0;; ++number) {
      const AttentionPlans plans{forward ? number : 0, forward ? 0 : number};
      try {
        result.plans_ns.push_back(time_of(plans, forward));
      } catch (const BackendError& failure) {
        if (number == 0 || failure.error().code != ErrorCode::bad_argument) throw;
        return result;
      }
    }
  }

 private:
  void* numbers(std::int64_t count) {
    const auto memory = stream_.device().allocate(2 * count, "an operand");
    stream_.enqueue([&](GpuStream on) {
      const cuda::DrawWeights draw{1, seed_++, 0, 1, count, count, 1, memory.data()};
      static_cast<void>(machine_.kernels.draw_weights(on, cuda::Stored::bf16, draw));
    });
    stream_.finish();
    return memory.data();
  }

  Nanoseconds time_of(const AttentionPlans& plans, bool forward) {
    constexpr int kRounds = 7;
    constexpr int kRepeats = 5;
    constexpr cuda::AttentionWorkspace kAny{~std::size_t{0}, ~std::size_t{0}};
    const cuda::FlashAttention attention(machine_.cudnn, sizes_, kAny, plans);
    const cuda::AttentionWorkspace bytes = attention.workspace();
    const DeviceMemory workspace(machine_.api.cuda, std::max({bytes.forward, bytes.backward, std::size_t{1}}),
                                 "a workspace");
    memory_.workspace = workspace.as<void>();
    const auto work = [&](GpuStream on) {
      if (forward) return attention.forward(on, memory_);
      attention.backward(on, memory_);
    };
    // Backward needs what forward keeps; and each loads its kernels.
    static_cast<void>(stream_.time_of([&](GpuStream on) { attention.forward(on, memory_), work(on); }));
    std::vector<Nanoseconds> times;
    for (int round = 0; round < kRounds; ++round) {
      times.push_back(stream_.time_of([&](GpuStream on) {
        for (int i = 0; i < kRepeats; ++i) work(on);
      }) / kRepeats);
    }
    return median_of(times);
  }

  const ProbeMachine& machine_;
  GpuDevice device_;
  ProbeStream stream_;
  cuda::AttentionSizes sizes_;
  cuda::AttentionMemory memory_;
  std::uint64_t seed_ = 0;
};

}  // namespace

std::vector<AttentionTime> time_attention(const ProbeMachine& machine, const TransformerConfig& config,
                                          int parts) {
  AttentionClock clock(machine, config, parts);
  return {clock.time("forward"), clock.time("backward")};
}

}  // namespace ppsim::test

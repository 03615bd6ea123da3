#include "support/gpu_probe/kernel_times.hpp"

#include <functional>

#include "support/kernel_operands.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using cuda::Stored;

/// Times one kernel after the other on memory that is allocated for them.
class KernelClock {
 public:
  explicit KernelClock(const ProbeMachine& machine)
      : machine_(machine), device_(machine.api.cuda, 0, 1), stream_(machine, device_, 0) {}

  /// Zeros: what the numbers are does not matter to the time.
  void* memory(std::int64_t numbers, std::int64_t bytes_of_number = 2) {
    const auto made = stream_.device().allocate(numbers * bytes_of_number, "an operand");
    stream_.enqueue([&](GpuStream on) { stream_.device().fill(on, made, std::byte{0}); });
    stream_.finish();
    return made.data();
  }

  template <class Call>
  KernelTime time(const std::string& name, const std::function<int(void*, Stored, const Call&)>& launch,
                  const Call& call) {
    const KernelAccess access = operands(Stored::bf16, call);
    std::int64_t bytes = 0;
    for (const auto* all : {&access.reads, &access.writes}) {
      for (const auto memory : *all) bytes += static_cast<std::int64_t>(memory.size());
    }
    return {name, bytes, time_of([&](GpuStream on) { static_cast<void>(launch(on, Stored::bf16, call)); })};
  }
  KernelTime time_copy(std::int64_t bytes) {
    const std::span from(static_cast<std::byte*>(memory(bytes, 1)), static_cast<std::size_t>(bytes));
    const std::span to(static_cast<std::byte*>(memory(bytes, 1)), static_cast<std::size_t>(bytes));
    return {"copy", 2 * bytes, time_of([&](GpuStream on) { stream_.device().copy(on, to, from); })};
  }
  [[nodiscard]] const cuda::KernelTable& kernels() const { return machine_.kernels; }

 private:
  Nanoseconds time_of(const std::function<void(GpuStream)>& work) {
    constexpr int kRounds = 7;
    constexpr int kRepeats = 5;
    static_cast<void>(stream_.time_of(work));  // loads it
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
};

}  // namespace

KernelTimes time_kernels(const ProbeMachine& machine, const TransformerConfig& config) {
  KernelClock clock(machine);
  const std::int64_t rows = std::int64_t{config.microbatch_size} * config.sequence;
  const std::int64_t width = config.hidden;
  const std::int64_t ffn = config.ffn;
  void* const x = clock.memory(rows * width);
  void* const y = clock.memory(rows * width);
  void* const unit = clock.memory(rows * width);
  void* const d_x = clock.memory(rows * width);
  void* const gain = clock.memory(width);
  void* const scale = clock.memory(rows, sizeof(float));
  void* const d_gain = clock.memory(width, sizeof(float));
  void* const partial = clock.memory(cuda::gain_chunks(rows) * width, sizeof(float));
  void* const gate_up = clock.memory(2 * rows * ffn);
  void* const d_gate_up = clock.memory(2 * rows * ffn);
  void* const activated = clock.memory(rows * ffn);
  const cuda::KernelTable& run = clock.kernels();
  KernelTimes times{.copy = clock.time_copy(rows * ffn * 2)};
  times.kernels = {
      clock.time<cuda::NormForward>("norm", run.norm_forward, {rows, width, x, gain, unit, scale, y}),
      clock.time<cuda::ApplyGain>("gain of a norm", run.apply_gain, {rows, width, unit, gain, y}),
      clock.time<cuda::NormBackward>("gradient of a norm", run.norm_backward,
                                     {rows, width, unit, scale, gain, y, x, partial, d_gain, d_x}),
      clock.time<cuda::Gate>("gate", run.gate, {rows, ffn, gate_up, activated}),
      clock.time<cuda::GateBackward>("gradient of a gate", run.gate_backward,
                                     {rows, ffn, gate_up, activated, d_gate_up}),
      clock.time<cuda::Accumulate>("sum of gradients", run.accumulate, {rows * ffn, gate_up, d_gate_up})};
  return times;
}

}  // namespace ppsim::test

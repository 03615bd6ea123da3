#include "support/linear_model.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "ppsim/gpu_backend/stage_model/reference.hpp"

namespace ppsim::test {
namespace {

constexpr std::size_t kCount = 8;
using Numbers = std::array<std::uint64_t, kCount>;

Numbers get(std::span<const std::byte> from) {
  if (from.size() != sizeof(Numbers)) throw std::logic_error("a buffer of a wrong size");
  Numbers numbers;
  std::memcpy(numbers.data(), from.data(), sizeof numbers);
  return numbers;
}

void put(std::span<std::byte> to, const Numbers& numbers) {
  if (to.size() != sizeof(Numbers)) throw std::logic_error("a buffer of a wrong size");
  std::memcpy(to.data(), numbers.data(), sizeof numbers);
}

template <class Function>
Numbers each(Function function) {
  Numbers result;
  for (std::size_t i = 0; i < kCount; ++i) result[i] = function(i);
  return result;
}

/// The tensors that F or R keeps: of x and w for I, of x for W.
void save(const ActionBuffers& b) {
  const Numbers x = get(b.x);
  const Numbers w = get(b.parameters);
  put(b.saved_for_input, each([&](std::size_t i) { return x[i] * x[i] + w[i]; }));
  put(b.saved_for_weight, each([&](std::size_t i) { return 3 * x[i] + 1; }));
}

void linear_forward(const ActionBuffers& b) {
  const Numbers x = get(b.x);
  const Numbers w = get(b.parameters);
  put(b.workspace, each([&](std::size_t i) { return w[i] * x[(i + 1) % kCount]; }));
  if (!b.saved_for_input.empty()) save(b);
  const Numbers z = get(b.workspace);
  if (!b.y.empty()) put(b.y, each([&](std::size_t i) { return z[i] + x[i] + 1; }));
}

/// The gradient of the stage's output; the last stage has its output for one.
Numbers output_gradient(const ActionBuffers& b) { return get(b.dy.empty() ? b.x : b.dy); }

void input_gradient(const ActionBuffers& b, std::span<std::byte> inner) {
  const Numbers dy = output_gradient(b);
  const Numbers saved = get(b.saved_for_input);
  const Numbers w = get(b.parameters);
  put(inner, each([&](std::size_t i) { return dy[i] * saved[i]; }));
  if (!b.dx.empty()) put(b.dx, each([&](std::size_t i) { return dy[i] * w[i] + saved[(i + 3) % kCount]; }));
}

void weight_gradient(const ActionBuffers& b, std::span<const std::byte> inner) {
  const Numbers dy = output_gradient(b);
  const Numbers saved = get(b.saved_for_weight);
  const Numbers from_input = get(inner);
  const Numbers before = get(b.gradients);
  put(b.gradients, each([&](std::size_t i) { return before[i] + saved[i] * dy[i] + from_input[i]; }));
}

}  // namespace

Expected<void> LinearModel::check(const Pipeline& pipeline) const {
  if (pipeline.is_chain() && pipeline.slices() == 1) return {};
  return make_error(ErrorCode::bad_argument, "the linear model runs chains without slices");
}

SizeTable LinearModel::sizes(const Pipeline& /*pipeline*/) const {
  constexpr Bytes kSize = sizeof(Numbers);
  SizeTable sizes;
  for (int kind = 0; kind < kTensorKindCount; ++kind)
    sizes.set({.kind = static_cast<TensorKind>(kind)}, kSize);
  sizes.set({.kind = TensorKind::lent_activations}, 2 * kSize);
  for (const OpKind op : {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::recompute}) {
    sizes.set({.kind = TensorKind::workspace, .op = op}, kSize);
  }
  return sizes;
}

void LinearModel::initialize(const Pipeline& /*pipeline*/, BlockId block, std::span<std::byte> parameters,
                             std::span<std::byte> optimizer_state) const {
  const auto seed = static_cast<std::uint64_t>(block.value() + 2);
  put(parameters, each([&](std::size_t i) { return seed * 1'000'003 + i; }));
  put(optimizer_state, Numbers{});
}

void LinearModel::load(const Pipeline& /*pipeline*/, MicrobatchId mb, const ActionBuffers& b) const {
  const std::int64_t batch = mb.value() + 1 + 1'000 * *b.step;
  put(b.x, each([&](std::size_t i) { return static_cast<std::uint64_t>(batch) * 7919 + i; }));
}

void LinearModel::compute(const Pipeline& /*pipeline*/, const Action& action, const ActionBuffers& b) const {
  if (action.kind == OpKind::forward) return linear_forward(b);
  if (action.kind == OpKind::recompute) return save(b);
  if (action.kind == OpKind::backward_input) return input_gradient(b, b.inner_gradients);
  if (action.kind == OpKind::backward_weight) return weight_gradient(b, b.inner_gradients);
  input_gradient(b, b.workspace);
  weight_gradient(b, b.workspace);
}

void LinearModel::update(std::span<std::byte> parameters, std::span<std::byte> gradients,
                         std::span<std::byte> optimizer_state, double gradient_scale) const {
  const Numbers w = get(parameters);
  const Numbers g = get(gradients);
  Numbers count = get(optimizer_state);
  for (std::uint64_t& c : count) ++c;
  const auto scale = static_cast<std::uint64_t>(gradient_scale * 1000);
  put(optimizer_state, count);
  put(parameters, each([&](std::size_t i) { return w[i] - g[i] * scale * count[i]; }));
}

void LinearModel::accumulate(std::span<std::byte> into, std::span<const std::byte> from) const {
  const Numbers a = get(into);
  const Numbers b = get(from);
  put(into, each([&](std::size_t i) { return a[i] + b[i]; }));
}

double LinearModel::squared_norm(std::span<const std::byte> gradients) const {
  return static_cast<double>(get(gradients)[0] % 1000);
}

double LinearModel::max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const {
  const Numbers x = get(a);
  const Numbers y = get(b);
  double most = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t distance = std::min(x[i] - y[i], y[i] - x[i]);
    most = std::max(most, static_cast<double>(distance));
  }
  return most;
}

RunOptions unverified(std::optional<int> credits) {
  RunOptions options;
  options.capabilities.credits = credits;
  options.unverified = true;
  options.poison = true;
  return options;
}

RunResult run(const Program& program, const CpuStageModel& model, const RunOptions& options) {
  auto result = execute(program, model, options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

std::string against_reference(const Program& program, const RunOptions& options) {
  const LinearModel model;
  const RunResult result = run(program, model, options);
  if (result.outcome != RunOutcome::finished) return "deadlock: " + hang_lines(result).front();
  const auto reference = reference_gradients(program.pipeline(), model, reference_options(program, options));
  if (!reference) return to_string(reference.error());
  const double difference = max_gradient_difference(model, result.gradients, *reference);
  if (difference == 0) return "equal";
  std::ostringstream text;
  text << "gradients differ by " << difference;
  return text.str();
}

std::string memory_figures(const Program& program, const CpuStageModel& model, const RunResult& result) {
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> sizes = tensor_sizes(table, model.sizes(program.pipeline()));
  IdVector<RankId, Bytes> replayed(static_cast<std::size_t>(program.pipeline().ranks()), 0);
  for (const TimedTrace& trace : result.traces) {
    const auto profiles = replay_memory(program, trace, table, sizes);
    for (int r = 0; r < program.pipeline().ranks(); ++r) {
      replayed[RankId(r)] = std::max(replayed[RankId(r)], profiles[RankId(r)].peak_bytes);
    }
  }
  std::ostringstream wrong;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    const RankId rank(r);
    const Bytes high_water = result.high_water_bytes[rank];
    if (high_water != replayed[rank])
      wrong << "rank " << r << ": " << high_water << " is not " << replayed[rank] << "; ";
    if (high_water > result.pool_bytes[rank])
      wrong << "rank " << r << ": a pool of " << result.pool_bytes[rank] << "; ";
  }
  return wrong.str().empty() ? "exact" : wrong.str();
}

std::vector<std::string> hang_lines(const RunResult& result) {
  std::vector<std::string> lines;
  for (const Wait& wait : result.hang) lines.push_back(to_string(wait));
  return lines;
}

}  // namespace ppsim::test

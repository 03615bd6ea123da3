#include "support/fake_gpu/stages.hpp"

#include <cmath>

#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim::test {
namespace {

using Bytes = std::vector<std::span<const std::byte>>;

Bytes::value_type number(const std::int64_t* step) { return std::as_bytes(std::span(step, 1)); }

/// The bytes that LOAD, F, B, I, W or R reads of its own slice, by the table of lifetimes.
Bytes own_reads_of(const Action& action, const ActionBuffers& b) {
  if (action.kind == OpKind::load) return {number(b.step)};
  if (action.kind == OpKind::backward)
    return {b.parameters, b.x, b.dy, b.saved_for_input, b.saved_for_weight, b.gradients};
  if (action.kind == OpKind::backward_input) return {b.parameters, b.dy, b.saved_for_input};
  if (action.kind == OpKind::backward_weight)
    return {b.x, b.dy, b.saved_for_weight, b.inner_gradients, b.gradients};
  return {b.parameters, b.x, number(b.step)};
}
/// The last slice of a microbatch begins the KV gradient, the others add to it.
Bytes reads_of(const Action& action, const ActionBuffers& b, int slices) {
  Bytes reads = own_reads_of(action, b);
  reads.insert(reads.end(), b.earlier.begin(), b.earlier.end());
  if (b.slice + 1 < slices) reads.emplace_back(b.kv_gradient);
  return reads;
}

Bytes writes_of(const Action& action, const ActionBuffers& b) {
  if (action.kind == OpKind::backward) return {b.dx, b.gradients, b.workspace, b.kv_gradient};
  if (action.kind == OpKind::backward_input) return {b.dx, b.inner_gradients, b.workspace, b.kv_gradient};
  if (action.kind == OpKind::backward_weight) return {b.gradients, b.workspace};
  return {b.y, b.saved_for_input, b.saved_for_weight, b.dx, b.workspace};
}

class FakeStages final : public GpuStages {
 public:
  FakeStages(FakeGpu& gpu, const CpuStageModel& model, const Pipeline& pipeline,
             FakeStageModel::Duration duration)
      : gpu_(gpu), model_(model), pipeline_(pipeline), duration_(std::move(duration)) {}

  void initialize(GpuStream stream, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) override {
    gpu_.launch(stream,
                {.writes = {parameters, optimizer_state},
                 .work = [=, this] { model_.initialize(pipeline_, block, parameters, optimizer_state); },
                 .kernel = "initialize"});
  }
  void load(GpuStream stream, MicrobatchId mb, const ActionBuffers& buffers) override {
    const Action action = make_action(OpKind::load, 0, mb.value());
    gpu_.launch(stream, {.duration = duration_(action),
                         .reads = reads_of(action, buffers, pipeline_.slices()),
                         .writes = {buffers.x},
                         .work = [=, this] { model_.load(pipeline_, mb, buffers); },
                         .kernel = "load"});
  }
  void compute(GpuStream stream, const Action& action, const ActionBuffers& buffers) override {
    gpu_.launch(stream,
                {.duration = duration_(action),
                 .reads = reads_of(action, buffers, pipeline_.slices()),
                 .writes = writes_of(action, buffers),
                 .work = [=, this] { model_.compute(pipeline_, action, buffers); },
                 .kernel = "of kind " + std::to_string(static_cast<int>(action.kind)) + " of stage " +
                           std::to_string(action.subject) + " and slice " + std::to_string(action.slice)});
  }
  void update(GpuStream stream, const UpdateBuffers& b) override {
    TaskDraft kernel{.reads = {b.parameters, b.gradients, b.optimizer_state},
                     .writes = {b.parameters, b.optimizer_state},
                     .work =
                         [=, this] {
                           const double norm = b.squared_norm == nullptr ? 0 : std::sqrt(*b.squared_norm);
                           const double scale = norm > b.largest_norm ? b.largest_norm / norm : 1;
                           model_.update(b.parameters, b.gradients, b.optimizer_state, scale);
                         },
                     .kernel = "update"};
    if (b.squared_norm != nullptr) kernel.reads.push_back(std::as_bytes(std::span(b.squared_norm, 1)));
    gpu_.launch(stream, std::move(kernel));
  }
  void accumulate(GpuStream stream, std::span<std::byte> into, std::span<const std::byte> from) override {
    gpu_.launch(stream, {.reads = {into, from},
                         .writes = {into},
                         .work = [=, this] { model_.accumulate(into, from); },
                         .kernel = "accumulate"});
  }
  void add_squared_norm(GpuStream stream, std::span<const std::byte> gradients, double* sum) override {
    const auto cell = std::as_bytes(std::span(sum, 1));
    gpu_.launch(stream, {.reads = {gradients, cell},
                         .writes = {cell},
                         .work = [=, this] { *sum += model_.squared_norm(gradients); },
                         .kernel = "squared norm"});
  }
  void add_norm(GpuStream stream, double* into, const double* from) override {
    const auto cell = std::as_bytes(std::span(into, 1));
    gpu_.launch(stream, {.reads = {cell, std::as_bytes(std::span(from, 1))},
                         .writes = {cell},
                         .work = [=] { *into += *from; },
                         .kernel = "add norm"});
  }
  void combine(GpuStream stream, CollectiveId collective, std::span<const CollectivePart> parts) override {
    const std::vector<CollectivePart> all(parts.begin(), parts.end());
    TaskDraft kernel{.work = [=, this] { model_.combine(pipeline_, collective, all); }, .kernel = "combine"};
    for (const CollectivePart& part : all) {
      for (const auto piece : {part.statistics, part.summand}) {
        kernel.reads.emplace_back(piece);
        kernel.writes.emplace_back(piece);
      }
    }
    gpu_.launch(stream, std::move(kernel));
  }

 private:
  FakeGpu& gpu_;
  const CpuStageModel& model_;
  const Pipeline& pipeline_;
  FakeStageModel::Duration duration_;
};

}  // namespace

FakeStageModel::FakeStageModel(FakeGpu& gpu, const CpuStageModel& model, bool exact, Duration duration)
    : gpu_(gpu), model_(model), exact_(exact), duration_(std::move(duration)) {}

std::unique_ptr<GpuStages> FakeStageModel::open(const Pipeline& pipeline, const GpuPlace& /*place*/) const {
  return std::make_unique<FakeStages>(gpu_, model_, pipeline, duration_);
}

}  // namespace ppsim::test

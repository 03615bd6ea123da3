#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::test {

/// Bytes on a 64-byte boundary, `shift` times 64 bytes behind a page's start, filled with garbage (NaN as
/// floats).
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(Bytes size, std::size_t shift = 0)
      : storage_(new (std::align_val_t{4096}) std::byte[static_cast<std::size_t>(size) + 64 * shift]),
        span_(storage_.get() + 64 * shift, static_cast<std::size_t>(size)) {
    std::fill(span_.begin(), span_.end(), std::byte{0xff});
  }
  [[nodiscard]] std::span<std::byte> span() const { return span_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte[], Free> storage_;
  std::span<std::byte> span_;
};

/// A model and all tensors of a pipeline, none of them ever freed or shared, on which a test runs actions in
/// any order that it likes.
class TransformerRun {
 public:
  TransformerRun(const TransformerConfig& config, Pipeline pipeline, std::size_t shift = 0)
      : TransformerRun(made(config), std::move(pipeline), shift) {}
  TransformerRun(std::unique_ptr<CpuStageModel> model, Pipeline pipeline, std::size_t shift = 0)
      : pipeline_(std::move(pipeline)), shift_(shift), model_(std::move(model)) {
    if (Expected<void> fits = model_->check(pipeline_); !fits) {
      throw std::invalid_argument(to_string(fits.error()));
    }
    sizes_ = model_->sizes(pipeline_);
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      model_->initialize(pipeline_, BlockId(b), tensor(TensorKind::parameters, b),
                         tensor(TensorKind::optimizer_state, b));
    }
    clear_gradients();
    begin_step(0);
  }

  /// Loads the batches of a step.
  void begin_step(int step) {
    step_ = step;
    for (int m = 0; m < pipeline_.microbatches(); ++m) load(m);
  }

  [[nodiscard]] const CpuStageModel& model() const { return *model_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] const SizeTable& sizes() const { return sizes_; }

  /// The tensor of a block, or of a stage and microbatch, or of one of several slices of these.
  std::span<std::byte> tensor(TensorKind kind, int subject, int mb = -1, int slice = -1) {
    AlignedBytes& bytes = tensors_[{kind, subject, mb, slice}];
    const Bytes size = sizes_({kind, subject, -1, slice});
    if (bytes.span().empty() && size > 0) bytes = AlignedBytes(size, shift_);
    return bytes.span();
  }

  /// The tensor of a side edge.
  std::span<std::byte> side(StageEdge edge, int mb) {
    AlignedBytes& bytes = sides_[{edge, mb}];
    const Bytes size = sizes_({TensorKind::boundary_output, edge.from.value(), edge.to.value()});
    if (bytes.span().empty() && size > 0) bytes = AlignedBytes(size, shift_);
    return bytes.span();
  }

  void clear_gradients() {
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      const std::span<std::byte> gradients = tensor(TensorKind::gradients, b);
      std::fill(gradients.begin(), gradients.end(), std::byte{0});
    }
  }

  void compute(OpKind kind, int stage, int mb, int slice = 0) {
    const Action action = make_action(kind, stage, mb, slice);
    const AlignedBytes workspace(sizes_({TensorKind::workspace, stage, -1, of_slices(slice), kind}), shift_);
    ActionBuffers buffers = buffers_of(action);
    buffers.workspace = workspace.span();
    model_->compute(pipeline_, action, buffers);
  }
  /// F without saved activations, as where R follows.
  void forward_without_saving(int stage, int mb) {
    const Action action = make_action(OpKind::forward, stage, mb);
    const AlignedBytes workspace(sizes_({TensorKind::workspace, stage}), shift_);
    ActionBuffers buffers = buffers_of(action);
    buffers.saved_for_input = {};
    buffers.saved_for_weight = {};
    buffers.workspace = workspace.span();
    model_->compute(pipeline_, action, buffers);
  }

  /// Stages of a microbatch's route, from the first to the last.
  [[nodiscard]] std::vector<int> chain_of(int mb) const {
    std::vector<int> chain;
    for (const StageId stage : pipeline_.spec().routes[pipeline_.route_of(MicrobatchId(mb))]) {
      if (pipeline_.producers(stage, MicrobatchId(mb)).empty()) chain = {stage.value()};
    }
    while (!pipeline_.consumers(StageId(chain.back()), MicrobatchId(mb)).empty()) {
      chain.push_back(pipeline_.consumers(StageId(chain.back()), MicrobatchId(mb)).front().value());
    }
    return chain;
  }
  void forward(int mb) {
    for (int k = 0; k < pipeline_.slices(); ++k) {
      for (const int stage : chain_of(mb)) compute(OpKind::forward, stage, mb, k);
    }
  }
  /// B on every stage, or I and W.
  void backward(int mb, bool split = false) {
    const std::vector<int> chain = chain_of(mb);
    for (int k = pipeline_.slices() - 1; k >= 0; --k) {
      for (auto stage = chain.rbegin(); stage != chain.rend(); ++stage) {
        compute(split ? OpKind::backward_input : OpKind::backward, *stage, mb, k);
        if (split) compute(OpKind::backward_weight, *stage, mb, k);
      }
    }
  }
  void run(int mb) {
    forward(mb);
    backward(mb);
  }
  void update(double gradient_scale = 1) {
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      model_->update(tensor(TensorKind::parameters, b), tensor(TensorKind::gradients, b),
                     tensor(TensorKind::optimizer_state, b), gradient_scale);
    }
  }

  /// Gradients of all blocks in ascending order, without the losses behind them.
  std::vector<std::byte> gradients() {
    std::vector<std::byte> all;
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      const auto whole = tensor(TensorKind::gradients, b);
      const auto block = whole.first(whole.size() - 64);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  /// The summed loss as it follows the gradients of the last stage's own block.
  template <class Loss>
  Loss loss() {
    Loss value;
    const BlockId block = pipeline_.blocks_of(StageId(chain_of(0).back())).front();
    std::memcpy(&value, tensor(TensorKind::gradients, block.value()).last(64).data(), sizeof value);
    return value;
  }

 private:
  static std::unique_ptr<CpuStageModel> made(const TransformerConfig& config) {
    Expected<std::unique_ptr<CpuStageModel>> model = make_transformer(config);
    if (!model) throw std::invalid_argument(to_string(model.error()));
    return std::move(*model);
  }

  /// The number of a slice where there are several, else -1.
  [[nodiscard]] int of_slices(int slice) const { return pipeline_.slices() > 1 ? slice : -1; }

  void load(int mb) {
    for (int k = 0; k < pipeline_.slices(); ++k) {
      ActionBuffers buffers;
      buffers.x = tensor(TensorKind::boundary_input, chain_of(mb).front(), mb, of_slices(k));
      buffers.step = &step_;
      buffers.slice = k;
      model_->load(pipeline_, MicrobatchId(mb), buffers);
    }
  }

  ActionBuffers buffers_of(const Action& action) {
    const int stage = action.subject;
    const int mb = action.microbatch;
    const int block = pipeline_.blocks_of(action.stage()).front().value();
    const int slice = of_slices(action.slice);
    const auto producers = pipeline_.producers(action.stage(), action.mb());
    ActionBuffers buffers;
    buffers.step = &step_;
    buffers.slice = action.slice;
    for (int k = 0; k < action.slice; ++k)
      buffers.earlier.push_back(tensor(TensorKind::saved_for_input, stage, mb, k));
    buffers.kv_gradient = tensor(TensorKind::kv_gradient, stage, mb);
    buffers.parameters = tensor(TensorKind::parameters, block);
    buffers.gradients = tensor(TensorKind::gradients, block);
    if (const auto blocks = pipeline_.blocks_of(action.stage()); blocks.size() > 1) {
      buffers.shared_parameters = tensor(TensorKind::parameters, blocks.back().value());
      buffers.shared_gradients = tensor(TensorKind::gradients, blocks.back().value());
    }
    buffers.x = producers.empty() ? tensor(TensorKind::boundary_input, stage, mb, slice)
                                  : tensor(TensorKind::boundary_output, producers.front().value(), mb, slice);
    if (action.kind == OpKind::forward) buffers.y = tensor(TensorKind::boundary_output, stage, mb, slice);
    buffers.saved_for_input = tensor(TensorKind::saved_for_input, stage, mb, slice);
    buffers.saved_for_weight = tensor(TensorKind::saved_for_weight, stage, mb, slice);
    buffers.dy = tensor(TensorKind::incoming_gradient, stage, mb, slice);
    if (const auto consumers = pipeline_.consumers(action.stage(), action.mb()); consumers.size() > 1) {
      for (const StageId consumer : consumers.subspan(1))
        buffers.further_dy.push_back(gradient_of(action, action.stage(), consumer));
    }
    for (const StageId producer : producers) {
      const auto dx = gradient_of(action, producer, action.stage());
      if (producer == producers.front()) {
        buffers.dx = dx;
        continue;
      }
      buffers.further_x.push_back(tensor(TensorKind::boundary_output, producer.value(), mb, slice));
      buffers.further_dx.push_back(dx);
    }
    for (const StageId producer : pipeline_.side_producers(action.stage(), action.mb()))
      buffers.side_inputs.push_back(side({producer, action.stage()}, mb));
    if (action.kind == OpKind::forward) {
      for (const StageId consumer : pipeline_.side_consumers(action.stage(), action.mb()))
        buffers.side_outputs.push_back(side({action.stage(), consumer}, mb));
    }
    if (action.kind == OpKind::backward_input || action.kind == OpKind::backward_weight) {
      buffers.inner_gradients = tensor(TensorKind::inner_gradients, stage, mb, slice);
    }
    return buffers;
  }

  /// The gradient of an output from one of its consumers; those after the first lie under other microbatches.
  std::span<std::byte> gradient_of(const Action& action, StageId producer, StageId consumer) {
    const bool first = pipeline_.consumers(producer, action.mb()).front() == consumer;
    const int of = first ? 0 : (1 + consumer.value()) * pipeline_.microbatches();
    return tensor(TensorKind::incoming_gradient, producer.value(), of + action.microbatch,
                  of_slices(action.slice));
  }

  Pipeline pipeline_;
  std::size_t shift_;
  std::unique_ptr<CpuStageModel> model_;
  SizeTable sizes_;
  std::map<std::tuple<TensorKind, int, int, int>, AlignedBytes> tensors_;
  std::map<std::pair<StageEdge, int>, AlignedBytes> sides_;
  std::int64_t step_ = 0;
};

/// A model small enough for tests that visit every parameter.
[[nodiscard]] inline TransformerConfig tiny_transformer(Arithmetic arithmetic) {
  TransformerConfig config;
  config.layers = 3;
  config.hidden = 8;
  config.heads = 2;
  config.ffn = 6;
  config.vocab = 11;
  config.sequence = 5;
  config.microbatch_size = 2;
  config.arithmetic = arithmetic;
  config.seed = 7;
  return config;
}

/// One stage per rank.
[[nodiscard]] inline Pipeline chain_of_stages(int stages, int microbatches = 1) {
  return make_chain(stages, stages, microbatches).value();
}
/// The same with every microbatch in slices.
[[nodiscard]] inline Pipeline sliced_chain_of_stages(int stages, int microbatches, int slices) {
  PipelineSpec spec = chain_of_stages(stages, microbatches).spec();
  spec.slices = slices;
  return Pipeline::make(std::move(spec)).value();
}

}  // namespace ppsim::test

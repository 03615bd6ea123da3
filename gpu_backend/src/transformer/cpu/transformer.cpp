#include "ppsim/gpu_backend/transformer/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "transformer/gpu/gpu_transformer.hpp"
#include "transformer/gpu/products.hpp"
#include "transformer_model.hpp"

namespace ppsim::gpu_backend {
namespace {

using transformer::RealArithmetic;
using transformer::RingArithmetic;
using transformer::TransformerModel;

constexpr int kMaxDimension = 1 << 20;
constexpr double kMaxElements = 1e12;  // of one model and microbatch, so that sizes fit in 64 bits

/// Collects every broken rule of a configuration.
class Complaints {
 public:
  void count(const char* what, int found, int least) {
    if (found >= least && found <= kMaxDimension) return;
    next() << what << " must be in [" << least << ", " << kMaxDimension << "], found " << found;
  }
  void rule(bool holds, const std::string& text) {
    if (!holds) next() << text;
  }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostream& next() { return text_ << (text_.tellp() > 0 ? "; " : "transformer: "); }
  std::ostringstream text_;
};

double elements(const TransformerConfig& config) {
  const double rows = static_cast<double>(config.microbatch_size) * config.sequence;
  const double width =
      10.0 * config.hidden + 5.0 * config.ffn + static_cast<double>(config.heads) * config.sequence;
  const double layer_weights = config.hidden * (4.0 * config.hidden + 3.0 * config.ffn);
  return config.layers * (rows * width + layer_weights) + config.vocab * (rows + 2.0 * config.hidden);
}

Expected<void> check_config(const TransformerConfig& config) {
  Complaints complaints;
  complaints.count("layers", config.layers, 1);
  complaints.count("hidden", config.hidden, 1);
  complaints.count("heads", config.heads, 1);
  complaints.count("ffn", config.ffn, 1);
  complaints.count("vocab", config.vocab, 2);
  complaints.count("sequence", config.sequence, 1);
  complaints.count("microbatch_size", config.microbatch_size, 1);
  complaints.rule(config.heads < 1 || config.hidden % config.heads == 0,
                  "heads must divide hidden, found " + std::to_string(config.heads) + " heads and hidden " +
                      std::to_string(config.hidden));
  complaints.rule(std::all_of(config.slice_lengths.begin(), config.slice_lengths.end(),
                              [](int length) { return length > 0; }),
                  "slice_lengths must be positive");
  complaints.rule(elements(config) <= kMaxElements,
                  "parameters and activations of a microbatch must be at most 10^12 numbers");
  complaints.rule(std::isfinite(config.learning_rate) && config.learning_rate >= 0,
                  "learning_rate must be finite and not negative");
  complaints.rule(config.momentum >= 0 && config.momentum < 1, "momentum must be in [0, 1)");
  complaints.rule(config.second_beta >= 0 && config.second_beta < 1, "second_beta must be in [0, 1)");
  complaints.rule(std::isfinite(config.weight_decay) && config.weight_decay >= 0,
                  "weight_decay must be finite and not negative");
  const auto fits_fp8 = [](std::int64_t count) { return count % cuda::kFp8Alignment == 0; };
  complaints.rule(config.arithmetic != Arithmetic::fp8 ||
                      (fits_fp8(config.hidden) && fits_fp8(config.ffn) &&
                       fits_fp8(std::int64_t{config.microbatch_size} * config.sequence)),
                  "fp8 needs hidden, ffn and the tokens of a microbatch in multiples of " +
                      std::to_string(cuda::kFp8Alignment));
  complaints.rule(config.optimizer == Optimizer::momentum || config.arithmetic != Arithmetic::integer_exact,
                  "AdamW needs real numbers: integers have no square root");
  if (complaints.text().empty()) return {};
  return make_error(ErrorCode::bad_argument, complaints.text());
}

/// The model in bf16 or fp8: its gradients are float32 numbers as those of the float32 model, and so is its
/// reference.
class GpuTransformerModel final : public TransformerModel<RealArithmetic<float>> {
 public:
  using TransformerModel::TransformerModel;
  Expected<void> check(const Pipeline& pipeline) const override {
    if (auto valid = TransformerModel::check(pipeline); !valid) return valid;
    return make_error(ErrorCode::bad_argument, "the transformer computes in bf16 and fp8 on a GPU only",
                      {.found = "a CPU", .expected = "float32, float64 or integer"});
  }
};

}  // namespace

Expected<std::unique_ptr<CpuStageModel>> make_transformer(const TransformerConfig& config) {
  if (Expected<void> valid = check_config(config); !valid) return tl::unexpected<Error>(valid.error());
  auto on_gpu = make_gpu_transformer(config, machine_libraries());
  switch (config.arithmetic) {
    case Arithmetic::float32:
      return std::make_unique<TransformerModel<RealArithmetic<float>>>(config, std::move(on_gpu));
    case Arithmetic::float64:
      return std::make_unique<TransformerModel<RealArithmetic<double>>>(config, std::move(on_gpu));
    case Arithmetic::integer_exact:
      return std::make_unique<TransformerModel<RingArithmetic>>(config, std::move(on_gpu));
    case Arithmetic::bf16:
    case Arithmetic::fp8:
      return std::make_unique<GpuTransformerModel>(config, std::move(on_gpu));
  }
  return make_error(ErrorCode::bad_argument, "transformer: unknown arithmetic");
}

double transformer_loss(const TransformerConfig& config, std::span<const std::byte> gradients) {
  switch (config.arithmetic) {
    case Arithmetic::float32:
    case Arithmetic::bf16:
    case Arithmetic::fp8:
      return TransformerModel<RealArithmetic<float>>::loss_of(gradients);
    case Arithmetic::float64:
      return TransformerModel<RealArithmetic<double>>::loss_of(gradients);
    case Arithmetic::integer_exact:
      return static_cast<double>(
          static_cast<std::int64_t>(TransformerModel<RingArithmetic>::loss_of(gradients)));
  }
  return 0;
}

}  // namespace ppsim::gpu_backend

#include "transformer_check.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "transformer/gpu/products.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

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

}  // namespace

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
  complaints.rule(std::ranges::all_of(config.slice_lengths, [](int length) { return length > 0; }),
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

}  // namespace ppsim::gpu_backend::transformer

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend_choice.hpp"
#include "command.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::cli {

/// --transformer, --arithmetic, --optimizer and --learning-rate: the model that is run.
struct ModelOptions {
  std::string transformer, arithmetic = "float32", optimizer = "momentum";
  double learning_rate = TransformerConfig().learning_rate;
  friend bool operator==(const ModelOptions&, const ModelOptions&) = default;
};
void add_model_options(Command& command, ModelOptions& options);

/// Whether --transformer says tied=true: embedding and head share their weights, which is a matter of the
/// pipeline. Errors: bad_argument for another value than true or false.
[[nodiscard]] Expected<bool> is_tied(const ModelOptions& options);

/// A transformer with a layer for every stage at least, its attention as the device's options say. Where it
/// runs in slices, these have the lengths given, or are as equal as can be.
/// Errors: bad_argument naming the item of --transformer; those of make_transformer.
[[nodiscard]] Expected<std::unique_ptr<StageModel>> transformer_of(const ModelOptions& options,
                                                                   const BackendChoice& device, int stages,
                                                                   std::vector<int> slice_lengths = {});
/// "attention by cuDNN 9.19.0": the kernels that run where others could; "" except on GPUs.
[[nodiscard]] std::string kernels_text(const BackendChoice& device, const StageModel& model,
                                       const Pipeline& pipeline);

/// Whether the model computes on the backend, which need not be here.
[[nodiscard]] Expected<void> check_backend_of(const BackendChoice& device, const StageModel& model,
                                              const Pipeline& pipeline);

}  // namespace ppsim::cli

#include "transformer_slices.hpp"

#include <cstdint>
#include <numeric>
#include <string>

#include "ppsim/core/text.hpp"

namespace ppsim::transformer {
namespace {

/// Whether an action makes the saved activations of a slice anew, or moves them.
bool takes_saved(OpKind kind) {
  return kind == OpKind::recompute || kind == OpKind::offload || kind == OpKind::send_activation;
}

}  // namespace

std::vector<Dimensions> slices_of(const TransformerConfig& config, int slices) {
  std::vector<Dimensions> all;
  Index before = 0;
  for (Index k = 0; k < slices; ++k) {
    const bool given = slices > 1 && !config.slice_lengths.empty();
    const Index length = given ? config.slice_lengths[static_cast<std::size_t>(k)]
                               : (k + 1) * config.sequence / slices - before;
    all.emplace_back(config, Slice{before, length});
    before += length;
  }
  return all;
}

Expected<void> check_slices(const TransformerConfig& config, int slices) {
  if (slices == 1) return {};
  const std::string tokens = std::to_string(config.sequence) + " tokens";
  if (slices > config.sequence) {
    return make_error(
        ErrorCode::bad_argument, "the transformer's sequences are too short for their slices",
        {.found = tokens + " in " + std::to_string(slices) + " slices", .expected = "a token in each"});
  }
  if (config.slice_lengths.empty()) return {};
  const auto found = config.slice_lengths.size();
  const std::int64_t sum =
      std::accumulate(config.slice_lengths.begin(), config.slice_lengths.end(), std::int64_t{0});
  if (found == static_cast<std::size_t>(slices) && sum == config.sequence) return {};
  return make_error(ErrorCode::bad_argument,
                    "the lengths of the slices are not those of the transformer's sequences",
                    {.found = std::to_string(found) + " slices with " + std::to_string(sum) + " tokens",
                     .expected = std::to_string(slices) + " slices with " + tokens});
}

Expected<void> check_kept_slices(const Program& program) {
  const Pipeline& pipeline = program.pipeline();
  if (pipeline.slices() == 1) return {};
  std::int64_t waiting = 0;  // F without its B or I
  for (const Action& action : program.all_actions()) {
    if (action.kind == OpKind::forward) ++waiting;
    if (gives_input_gradient(action.kind)) --waiting;
    if (!takes_saved(action.kind)) continue;
    return make_error(
        ErrorCode::bad_argument,
        "the transformer reads the keys and values of earlier slices where their F has saved them",
        {.found = action_text(pipeline, action), .expected = "neither R nor OFFLOAD nor SEND_A"});
  }
  if (waiting == 0) return {};
  return make_error(ErrorCode::bad_argument, "the transformer cannot run slices without their backward",
                    {.found = std::to_string(waiting) + " more F than B and I", .expected = "as many"});
}

}  // namespace ppsim::transformer

#include "transformer_slices.hpp"

#include <cstdint>
#include <numeric>
#include <string>

#include "kept_activations.hpp"

namespace ppsim::gpu_backend::transformer {

std::vector<Dimensions> slices_of(const TransformerConfig& config, int slices) {
  std::vector<Dimensions> all;
  Index before = 0;
  for (Index k = 0; k < slices; ++k) {
    const bool given = slices > 1 && !config.slice_lengths.empty();
    const Index length =
        given ? config.slice_lengths[as_size(k)] : (k + 1) * config.sequence / slices - before;
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
  if (found == as_size(slices) && sum == config.sequence) return {};
  return make_error(ErrorCode::bad_argument,
                    "the lengths of the slices are not those of the transformer's sequences",
                    {.found = std::to_string(found) + " slices with " + std::to_string(sum) + " tokens",
                     .expected = std::to_string(slices) + " slices with " + tokens});
}

Expected<void> check_kept_slices(const Program& program) {
  if (program.pipeline().slices() == 1) return {};
  return check_kept(program,
                    {.concerns = [](const Action&) { return true; },
                     .why = "reads the keys and values of earlier slices where their F has saved them",
                     .of = "slices"});
}

}  // namespace ppsim::gpu_backend::transformer

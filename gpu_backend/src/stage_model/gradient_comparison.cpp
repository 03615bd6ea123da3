#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "stage_buffer.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Appends every line of 64 bytes that is not all zero.
void append_lines(std::vector<std::byte>& lines, std::span<const std::byte> values) {
  while (!values.empty()) {
    const auto line = values.first(std::min<std::size_t>(values.size(), 64));
    if (std::ranges::any_of(line, [](std::byte byte) { return byte != std::byte{0}; }))
      append_all(lines, line);
    values = values.subspan(line.size());
  }
}

}  // namespace

double max_gradient_difference(const CpuStageModel& model, const std::vector<BlockGradients>& run,
                               const std::vector<BlockGradients>& reference) {
  double most = 0;
  for (const BlockGradients& expected : reference) {
    std::vector<StageBuffer> shares;
    for (const BlockGradients& own : run) {
      if (own.block != expected.block || own.update != expected.update) continue;
      StageBuffer values(own.values.begin(), own.values.end());
      if (own.reduced || shares.empty()) {
        shares.push_back(std::move(values));
      } else {
        model.accumulate(shares.front(), values);
      }
    }
    if (shares.empty()) shares.emplace_back(expected.values.size());  // no microbatch adds to them
    const StageBuffer wanted(expected.values.begin(), expected.values.end());
    for (const StageBuffer& values : shares) most = std::max(most, model.max_abs_difference(values, wanted));
  }
  return most;
}

std::string gradients_hash(const std::vector<BlockGradients>& run) {
  std::vector<std::byte> lines;
  for (const BlockGradients& own : run) append_lines(lines, own.values);
  return bytes_hash(lines);
}

}  // namespace ppsim::gpu_backend

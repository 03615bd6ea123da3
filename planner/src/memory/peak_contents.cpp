#include "ppsim/planner/memory/peak_contents.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/execution/tensor_life.hpp"

namespace ppsim::planner {

IdVector<RankId, std::vector<KindBytes>> peak_contents(const SimulatedStep& step) {
  const auto& [table, sizes] = step.tensors;
  const auto ranks = as_size(step.program().pipeline().ranks());
  IdVector<RankId, std::array<Bytes, kTensorKindCount>> sums(ranks, {});
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    const Instant peak = step.metrics.memory[tensor.rank].peak_at;
    const Instant from = allocation(tensor, step.trace, table);
    const Instant to = release(tensor, step.trace, table);
    if (!happened(from) || peak < from || (happened(to) && !(peak < to))) continue;
    sums[tensor.rank][static_cast<std::size_t>(tensor.size_class.kind)] += sizes[i];
  }
  IdVector<RankId, std::vector<KindBytes>> contents(ranks, {});
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    for (std::size_t kind = 0; kind < kTensorKindCount; ++kind) {
      if (sums[rank][kind] > 0) contents[rank].push_back({static_cast<TensorKind>(kind), sums[rank][kind]});
    }
    std::ranges::stable_sort(contents[rank], std::ranges::greater(), &KindBytes::bytes);
  }
  return contents;
}

}  // namespace ppsim::planner

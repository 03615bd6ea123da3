#include "gathered_parts.hpp"

#include <algorithm>

namespace ppsim::gpu_backend {
namespace {

/// Every part begins where a tensor may begin.
std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Bytes summand_bytes(const Collective& collective, const SizeTable& sizes) {
  const std::int32_t stage = collective.after.stages.front().value();
  if (const StageId reader = collective.gradient_of; reader.valid()) {
    return sizes(
        {.kind = TensorKind::outgoing_gradient, .subject = stage, .peer = reader.value(), .slice = 0});
  }
  if (!collective.input_of.valid()) return 0;
  return sizes({.kind = TensorKind::boundary_output, .subject = stage, .slice = 0});
}

CollectiveMemory collective_memory(const GpuStageModel& model, const Pipeline& pipeline,
                                   const Action& action) {
  const SizeTable sizes = model.sizes(pipeline);
  if (action.kind == OpKind::reduce_grad)
    return {model.gradient_type(), sizes({.kind = TensorKind::gradients, .subject = action.subject})};
  constexpr CollectiveMemory kToken{ElementType::float64, sizeof(double)};
  if (action.kind != OpKind::collective || action.microbatch < 0) return kToken;
  const Collective& collective = pipeline.spec().collectives[action.collective()];
  if (collective.after.stages.empty()) return kToken;
  const GatheredParts parts(collective, collective.members.front(),
                            model.statistics_bytes(pipeline, action.collective()),
                            summand_bytes(collective, sizes));
  return parts.bytes() == 0 ? kToken : CollectiveMemory{ElementType::uint64, parts.bytes()};
}

GatheredParts::GatheredParts(const Collective& collective, RankId rank, Bytes statistics, Bytes summand)
    : members_(collective.members.size()),
      own_(as_size(std::ranges::find(collective.members, rank) - collective.members.begin())),
      statistics_(as_size(statistics)),
      summand_(as_size(summand)),
      stride_(aligned(statistics_) + aligned(summand_)) {}

void GatheredParts::place(std::span<std::byte> memory) {
  memory_ = memory;
  parts_.clear();
  for (std::size_t member = 0; member < members_; ++member) {
    const std::span<std::byte> part = memory.subspan(member * stride_, stride_);
    parts_.push_back({part.first(statistics_), part.subspan(aligned(statistics_), summand_)});
  }
}

}  // namespace ppsim::gpu_backend

#include <utility>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::gpu_backend {
namespace {

[[noreturn]] void runs_nowhere() {
  PPSIM_CHECK(false, "a model that has kernels only was run on a CPU without a check");
}

}  // namespace

GpuOnlyModel::GpuOnlyModel(std::unique_ptr<GpuStageModel> kernels) : kernels_(std::move(kernels)) {
  PPSIM_CHECK(kernels_ != nullptr, "a model of nothing");
}

Expected<void> GpuOnlyModel::check(const Pipeline& /*pipeline*/) const {
  return make_error(ErrorCode::bad_argument, "this model has kernels and nothing for a CPU",
                    {.found = "a run or a reference on a CPU", .expected = "a GPU, and no comparison"});
}

Expected<void> GpuOnlyModel::check_actions(const Program& program) const {
  return kernels_->check_actions(program);
}

SizeTable GpuOnlyModel::sizes(const Pipeline& pipeline) const { return kernels_->sizes(pipeline); }

void GpuOnlyModel::initialize(const Pipeline& /*pipeline*/, BlockId /*block*/,
                              std::span<std::byte> /*parameters*/,
                              std::span<std::byte> /*optimizer_state*/) const {
  runs_nowhere();
}
void GpuOnlyModel::load(const Pipeline& /*pipeline*/, MicrobatchId /*mb*/,
                        const ActionBuffers& /*buffers*/) const {
  runs_nowhere();
}
void GpuOnlyModel::compute(const Pipeline& /*pipeline*/, const Action& /*action*/,
                           const ActionBuffers& /*buffers*/) const {
  runs_nowhere();
}
void GpuOnlyModel::update(std::span<std::byte> /*parameters*/, std::span<std::byte> /*gradients*/,
                          std::span<std::byte> /*optimizer_state*/, double /*gradient_scale*/) const {
  runs_nowhere();
}
void GpuOnlyModel::accumulate(std::span<std::byte> /*into*/, std::span<const std::byte> /*from*/) const {
  runs_nowhere();
}
double GpuOnlyModel::squared_norm(std::span<const std::byte> /*gradients*/) const { runs_nowhere(); }
double GpuOnlyModel::max_abs_difference(std::span<const std::byte> /*a*/,
                                        std::span<const std::byte> /*b*/) const {
  runs_nowhere();
}

}  // namespace ppsim::gpu_backend

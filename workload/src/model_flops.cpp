#include "model_flops.hpp"

namespace ppsim::workload {
namespace {

double sequence_of(const Workload& workload) {
  const std::int64_t given = workload.parallelism.sequence;
  return static_cast<double>(given > 0 ? given : workload.model.sequence);
}

/// Of one token and layer, forward.
double attention_flops(const Workload& workload) {
  const ModelDescription& model = workload.model;
  const double width = model.kv_lora > 0
                           ? static_cast<double>(model.qk_nope + model.qk_rope + model.v_head) / 2
                           : static_cast<double>(model.head_dim);
  return 2 * sequence_of(workload) * static_cast<double>(model.heads) * width;
}

}  // namespace

double peak_rate(const Workload& workload) {
  const GpuDescription& gpu = workload.cluster.gpu;
  switch (workload.parallelism.dtype) {
    case DataType::bf16:
      return gpu.bf16_tflops * 1e12;
    case DataType::fp8:
      return gpu.fp8_tflops * 1e12;
    case DataType::nvfp4:
      return 2 * gpu.fp8_tflops * 1e12;
  }
  return 0;
}

double step_flops(const Workload& workload, std::int64_t mtp) {
  const ModelDescription& model = workload.model;
  const auto head = static_cast<double>(model.vocab * model.hidden);
  double products = head;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    products += static_cast<double>(active_layer_parameters(model, layer));
  const auto last = static_cast<double>(active_layer_parameters(model, model.layers - 1));
  const double projection = 2 * static_cast<double>(model.hidden) * static_cast<double>(model.hidden);
  products += static_cast<double>(mtp) * (last + projection + head);
  const double attention = attention_flops(workload) * static_cast<double>(model.layers + mtp);
  return 3 * (2 * products + attention) * sequence_of(workload) * workload.parallelism.global_batch_size;
}

}  // namespace ppsim::workload

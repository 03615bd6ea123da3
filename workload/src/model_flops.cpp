#include "model_flops.hpp"

#include <algorithm>

namespace ppsim::workload {
namespace {

double sequence_of(const Workload& workload) {
  const std::int64_t given = workload.parallelism.sequence;
  return static_cast<double>(given > 0 ? given : workload.model.sequence);
}

/// Of all tokens of a sequence, forward; with a window, of all but the first tokens the same.
double attention_flops(const Workload& workload, std::int64_t layer) {
  const ModelDescription& model = workload.model;
  const double width = model.kv_lora > 0
                           ? static_cast<double>(model.qk_nope + model.qk_rope + model.v_head) / 2
                           : static_cast<double>(model.head_dim);
  const double window = is_windowed(model, layer) ? static_cast<double>(model.window) : sequence_of(workload);
  return 4 * attended_pairs(sequence_of(workload), window) * static_cast<double>(model.heads) * width;
}

}  // namespace

double attended_pairs(double sequence, double window) {
  const double kept = std::min(sequence, window);
  return kept * (sequence - kept / 2);
}

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
  double attention = static_cast<double>(mtp) * attention_flops(workload, model.layers - 1);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    products += static_cast<double>(active_layer_parameters(model, layer));
    attention += attention_flops(workload, layer);
  }
  const auto last = static_cast<double>(active_layer_parameters(model, model.layers - 1));
  const double projection = 2 * static_cast<double>(model.hidden) * static_cast<double>(model.hidden);
  products += static_cast<double>(mtp) * (last + projection + head);
  return 3 * (2 * products * sequence_of(workload) + attention) * workload.parallelism.global_batch_size;
}

}  // namespace ppsim::workload

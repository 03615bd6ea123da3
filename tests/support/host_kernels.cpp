#include "support/host_kernels.hpp"

#include "ppsim/core/ir/check.hpp"
#include "support/emulated_cuda/kernels.hpp"
#include "support/kernel_operands.hpp"

namespace ppsim::test {
namespace {

template <class... Call>
void give_to(const HostQueue& queue, std::function<int(void*, Call...)>& kernel) {
  kernel = [queue, run = kernel](void* stream, Call... call) {
    return queue(stream, operands(call...),
                 [=] { PPSIM_CHECK(run(stream, call...) == 0, "a launch that no device takes"); });
  };
}

}  // namespace

HostQueue immediately() {
  return [](void*, const KernelAccess&, const std::function<void()>& work) {
    work();
    return 0;
  };
}

cuda::KernelTable host_kernels(const HostQueue& queue) {
  cuda::KernelTable table = emulated_kernels();
  give_to(queue, table.norm_forward);
  give_to(queue, table.apply_gain);
  give_to(queue, table.norm_backward);
  give_to(queue, table.causal_softmax);
  give_to(queue, table.causal_softmax_backward);
  give_to(queue, table.store_sums);
  give_to(queue, table.gate);
  give_to(queue, table.gate_backward);
  give_to(queue, table.draw_tokens);
  give_to(queue, table.write_number);
  give_to(queue, table.embed);
  give_to(queue, table.embed_backward);
  give_to(queue, table.loss);
  give_to(queue, table.open_loss);
  give_to(queue, table.close_loss);
  give_to(queue, table.target_weights);
  give_to(queue, table.merge_loss);
  give_to(queue, table.sum_parts);
  give_to(queue, table.accumulate);
  give_to(queue, table.squared_norm);
  give_to(queue, table.add_norm);
  give_to(queue, table.descend);
  give_to(queue, table.draw_weights);
  give_to(queue, table.start_state);
  give_to(queue, table.ring_product);
  give_to(queue, table.find_scale);
  give_to(queue, table.quantize);
  return table;
}

}  // namespace ppsim::test

#include "support/host_kernels.hpp"

#include "support/host_kernel.hpp"

namespace ppsim::test {

HostQueue immediately() {
  return [](void*, const KernelAccess&, const std::function<void()>& work) {
    work();
    return 0;
  };
}

cuda::KernelTable host_kernels(const HostQueue& queue) {
  cuda::KernelTable table;
  add_layer_kernels(table, queue);
  add_end_kernels(table, queue);
  add_vocabulary_kernels(table, queue);
  add_fp8_kernels(table, queue);
  return table;
}

}  // namespace ppsim::test

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
#define PPSIM_CALL(name, type) give_to(queue, table.name);
#include "transformer/kernels/kernel_table.def"
#undef PPSIM_CALL
  return table;
}

}  // namespace ppsim::test

#include "local_work.hpp"

#include "ppsim/core/ir/check.hpp"

namespace ppsim::gpu_backend {

LocalWork local_work(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
    case OpKind::backward:
    case OpKind::backward_input:
    case OpKind::backward_weight:
    case OpKind::recompute:
      return LocalWork::compute;
    case OpKind::optimizer:
      return LocalWork::optimize;
    case OpKind::offload:
      return LocalWork::offload;
    case OpKind::reload:
      return LocalWork::reload;
    case OpKind::load:
      return LocalWork::load;
    case OpKind::reshard:
      return LocalWork::none;
    case OpKind::overlap:
    case OpKind::send_forward:
    case OpKind::recv_forward:
    case OpKind::send_backward:
    case OpKind::recv_backward:
    case OpKind::send_activation:
    case OpKind::recv_activation:
    case OpKind::unshard:
    case OpKind::reduce_grad:
    case OpKind::collective:
      break;
  }
  PPSIM_CHECK(false, "not an action of a compute or copy queue");
}

}  // namespace ppsim::gpu_backend

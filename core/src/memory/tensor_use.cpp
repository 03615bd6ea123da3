#include "ppsim/core/memory/tensor_use.hpp"

namespace ppsim {

bool frees(const Action& action, const Tensor& tensor) {
  const SizeClass& what = tensor.size_class;
  if (action.subject != what.subject) return false;
  switch (info(what.kind).freed) {
    case FreedBy::last_user:
      return false;
    case FreedBy::reshard:
      return action.kind == OpKind::reshard;
    case FreedBy::offload:
      return (action.kind == OpKind::offload || action.kind == OpKind::send_activation) &&
             action.microbatch == tensor.microbatch && action.slice == what.slice;
  }
  return false;
}

}  // namespace ppsim

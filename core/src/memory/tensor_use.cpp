#include "ppsim/core/memory/tensor_use.hpp"

namespace ppsim {

bool is_written_once(TensorKind kind) {
  switch (kind) {
    case TensorKind::parameters:
    case TensorKind::optimizer_state:
    case TensorKind::workspace:
      return false;
    case TensorKind::gradients:
    case TensorKind::partial_gradients:
    case TensorKind::gathered_parameters:
    case TensorKind::boundary_input:
    case TensorKind::boundary_output:
    case TensorKind::saved_for_input:
    case TensorKind::saved_for_weight:
    case TensorKind::lent_activations:
    case TensorKind::incoming_gradient:
    case TensorKind::outgoing_gradient:
    case TensorKind::inner_gradients:
    case TensorKind::kv_gradient:
      return true;
  }
  return false;
}

bool frees(const Action& action, const Tensor& tensor) {
  const SizeClass& what = tensor.size_class;
  switch (what.kind) {
    case TensorKind::gathered_parameters:
      return action.kind == OpKind::reshard && action.subject == what.subject;
    case TensorKind::saved_for_input:
    case TensorKind::saved_for_weight:
    case TensorKind::lent_activations:
      return (action.kind == OpKind::offload || action.kind == OpKind::send_activation) &&
             action.subject == what.subject && action.microbatch == tensor.microbatch &&
             action.slice == what.slice;
    case TensorKind::parameters:
    case TensorKind::optimizer_state:
    case TensorKind::gradients:
    case TensorKind::partial_gradients:
    case TensorKind::boundary_input:
    case TensorKind::boundary_output:
    case TensorKind::incoming_gradient:
    case TensorKind::outgoing_gradient:
    case TensorKind::inner_gradients:
    case TensorKind::kv_gradient:
    case TensorKind::workspace:
      return false;
  }
  return false;
}

}  // namespace ppsim

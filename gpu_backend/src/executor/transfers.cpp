#include "transfers.hpp"

#include "worker.hpp"

namespace ppsim::gpu_backend {
namespace {

Payload payload_of(const TensorMap& tensors, ActionPlace place, const Action& action) {
  const Payload whole = tensors.payload(place, action);
  const bool lent = action.kind == OpKind::send_activation || action.kind == OpKind::recv_activation;
  if (!lent || !whole[1].empty()) return whole;
  const auto first = static_cast<std::size_t>(tensors.saved_sizes(action)[0]);
  if (first > whole[0].size()) return whole;  // the sizes do not fit, which the transport reports
  return {whole[0].first(first), whole[0].subspan(first)};
}

}  // namespace

std::vector<Transfer> transfers_of(const Program& program, const TensorMap& tensors, ActionPlace place) {
  std::vector<Transfer> result = transfer_ends(program, place);
  const auto actions = program.actions(place.instruction);
  for (std::size_t i = 0; i < actions.size(); ++i) result[i].payload = payload_of(tensors, place, actions[i]);
  return result;
}

}  // namespace ppsim::gpu_backend

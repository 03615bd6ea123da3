#include "ppsim/core/memory/tensor_use.hpp"

#include <algorithm>

namespace ppsim {

namespace {

/// Whether an action of a stage reads the output of the producer as a part of the input of its sibling.
bool reads_part(const Pipeline& pipeline, const Action& reader, StageId producer, StageId sibling) {
  const auto producers = pipeline.producers(reader.stage(), reader.mb());
  return std::ranges::find(producers, producer) != producers.end() &&
         pipeline.receiver(producer, reader.stage(), reader.mb()) == sibling;
}

/// Whether what an instruction writes of a received input is among what another one reads of it.
bool writes_what_is_read(const Program& program, const Tensor& input, InstructionId writer,
                         InstructionId user) {
  const Pipeline& pipeline = program.pipeline();
  const StageId owner(input.size_class.subject);
  const auto is_of = [&](const Action& a) { return a.microbatch == input.microbatch; };
  const auto reads = [&](const Action& a) {
    return is_of(a) && computes_stage(a.kind) && a.subject == input.size_class.subject;
  };
  const auto users = program.actions(user);
  if (std::ranges::any_of(users, reads)) return true;
  return std::ranges::any_of(program.actions(writer), [&](const Action& part) {
    if (part.kind != OpKind::recv_forward || part.stage() != owner || !is_of(part)) return false;
    return std::ranges::any_of(users, [&](const Action& a) {
      return is_of(a) && computes_stage(a.kind) && reads_part(pipeline, a, part.peer_stage(), owner);
    });
  });
}

}  // namespace

bool comes_in_parts(const Tensor& tensor) {
  return tensor.writer_count > 1 && tensor.size_class.kind == TensorKind::boundary_input &&
         tensor.size_class.peer < 0;
}

std::vector<InstructionId> writers_before(const Program& program, const TensorTable& table,
                                          const Tensor& tensor, InstructionId user) {
  const auto all = table.writers_of(tensor);
  std::vector<InstructionId> writers(all.begin(), all.end());
  const auto computes = [](const Action& action) { return computes_stage(action.kind); };
  if (!std::ranges::any_of(program.actions(user), computes)) return writers;
  std::erase_if(writers,
                [&](InstructionId writer) { return !writes_what_is_read(program, tensor, writer, user); });
  return writers;
}

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

#include "support/hand_program.hpp"

#include <stdexcept>

#include "ppsim/core/io/text.hpp"

namespace ppsim::test {
namespace {

template <class T>
T value_or_throw(Expected<T> result) {
  if (!result) throw std::invalid_argument(to_string(result.error()));
  return *std::move(result);
}

std::string positions(const Program& program, std::span<const InstructionId> ids) {
  std::string text;
  for (const InstructionId id : ids) {
    if (!text.empty()) text += ',';
    text += std::to_string(program.position(id));
  }
  return text;
}

}  // namespace

Program HandProgram::build() const {
  Pipeline made = value_or_throw(Pipeline::make(pipeline));
  ProgramDraft draft;
  draft.communicators = communicators;
  for (const std::vector<std::string>& row : rows) {
    std::vector<InstructionDraft> items;
    for (const std::string& text : row) items.push_back(value_or_throw(parse_instruction(made, text)));
    draft.rows.push_back(std::move(items));
  }
  return value_or_throw(ProgramBuilder::build(std::move(made), draft));
}

PipelineSpec chain_spec(int ranks, int stages, int microbatches) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.stages = stages;
  spec.microbatches = microbatches;
  return spec;
}

std::vector<Communicator> communicators(std::initializer_list<std::initializer_list<int>> members) {
  std::vector<Communicator> result;
  for (const auto& ranks : members) {
    Communicator communicator{"c" + std::to_string(result.size()), {}, -1};
    for (const int rank : ranks) communicator.members.emplace_back(rank);
    result.push_back(std::move(communicator));
  }
  return result;
}

std::vector<InstructionId> at(const Program& program, int rank, std::initializer_list<int> positions) {
  std::vector<InstructionId> ids;
  for (const int position : positions) ids.emplace_back(program.first(RankId(rank)).value() + position);
  return ids;
}

std::vector<Tensor> tensors_of(const TensorTable& table, int rank, TensorKind kind, int subject) {
  std::vector<Tensor> found;
  for (const Tensor& tensor : table.tensors) {
    if (tensor.rank != RankId(rank) || tensor.size_class.kind != kind) continue;
    if (tensor.size_class.subject == subject) found.push_back(tensor);
  }
  return found;
}

std::string lifetime(const Program& program, const TensorTable& table, const Tensor& tensor) {
  const std::string from = tensor.from_start ? "start" : positions(program, table.writers_of(tensor));
  return from + " -> " + (tensor.to_end ? "end" : positions(program, table.users_of(tensor)));
}

std::string lifetimes(const Program& program, int rank, TensorKind kind, int subject) {
  const TensorTable table = tensor_table(program);
  std::string text;
  for (const Tensor& tensor : tensors_of(table, rank, kind, subject)) {
    if (!text.empty()) text += "; ";
    text += lifetime(program, table, tensor);
  }
  return text;
}

}  // namespace ppsim::test

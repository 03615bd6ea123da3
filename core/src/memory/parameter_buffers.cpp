#include "parameter_buffers.hpp"

#include <algorithm>

#include "ppsim/core/execution/facts.hpp"

namespace ppsim {

ParameterBuffers::ParameterBuffers(const Program& program, RankId rank)
    : pipeline_(program.pipeline()),
      buffers_(as_size(pipeline_.blocks()), {0}),
      updates_(buffers_.size()),
      last_reader_(buffers_.size()) {
  for (const InstructionId id : program.ids_of(rank)) {
    for (const Action& action : program.actions(id)) {
      if (belongs_on(pipeline_, action, rank)) note(action, id);
    }
  }
  for (std::size_t b = 0; b < updates_.size(); ++b) {
    std::ranges::stable_sort(updates_[b], {}, &Update::number);
    for (const Update& update : updates_[b]) {
      const int made = update.number + 1;
      if (made > buffers_[b].back() && read_behind(BlockId(static_cast<std::int32_t>(b)), update)) {
        buffers_[b].push_back(made);
      }
    }
  }
}

void ParameterBuffers::note(const Action& action, InstructionId id) {
  if (action.kind == OpKind::optimizer) {
    updates_[action.block().index()].push_back({action.update(), id});
  } else if (pipeline_.asynchronous() && reads_weights(action.kind)) {
    const int version = pipeline_.version(action.stage(), action.mb());
    for (const BlockId block : pipeline_.blocks_of(action.stage())) note_reader(block, version, id);
  }
}

void ParameterBuffers::note_reader(BlockId block, int version, InstructionId id) {
  std::vector<InstructionId>& last = last_reader_[block.index()];
  const auto index = as_size(version);
  if (last.size() <= index) last.resize(index + 1);
  last[index] = id;
}

/// Whether an action behind the OPT reads the version that the OPT starts from.
bool ParameterBuffers::read_behind(BlockId block, const Update& update) const {
  const std::vector<InstructionId>& last = last_reader_[block.index()];
  const auto version = as_size(update.number);
  return version < last.size() && last[version] > update.optimizer;
}

int ParameterBuffers::holding(BlockId block, int version) const {
  const std::vector<int>& versions = buffers_[block.index()];
  const auto above = std::ranges::upper_bound(versions, version);
  return above == versions.begin() ? versions.front() : *std::prev(above);
}

bool ParameterBuffers::has_update(BlockId block, int update) const {
  const std::vector<Update>& updates = updates_[block.index()];
  const auto at = std::ranges::lower_bound(updates, update, {}, &Update::number);
  return at != updates.end() && at->number == update;
}

}  // namespace ppsim

#include "building_block.hpp"

#include "repeated_block.hpp"

namespace ppsim {

Expected<Schedule> repeat_block(const std::string& name, const BuildingBlock& block, int microbatches) {
  RepeatedBlock repeated(block, microbatches);
  const bool fills = block.splits_backward && !block.stages.front().weight;
  if (fills) repeated.fill_weights();
  repeated.hasten();
  repeated.squeeze();
  if (fills) {
    // Once more without the W, which then take what is left: first to close up, then for good.
    repeated.drop_weights();
    repeated.hasten_ending();
    repeated.fill_weights();
    repeated.squeeze();
    repeated.drop_weights();
    repeated.fill_weights();
  }
  return repeated.schedule(name);
}

}  // namespace ppsim

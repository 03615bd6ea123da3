#pragma once

#include <vector>

#include "synthesis/incumbent.hpp"
#include "synthesis/relaxation.hpp"

namespace ppsim::verifier::synthesis {

/// A model in flat arrays, for searches that time many orders, with the room that they may take.
struct Shop {
  /// Its arguments must outlive it.
  Shop(const ChainModel& chain, const Relaxation& relaxation, const Rooms& rooms, Objective wanted);

  /// Its tasks follow those of `source`, microbatch by microbatch: F and I those of the stage that they read
  /// from, W those of its I. The first F follows nothing.
  struct Strand {
    int rank = 0;
    int stage = 0;
    int phase = 0;
    Slot duration = 0;
    int source = -1;  ///< strand
    Slot lag = 0;     ///< of the transfer
    int reader = -1;  ///< strand of another rank that reads from this one
    Bytes take = 0;
    Bytes give = 0;
  };

  [[nodiscard]] const Strand& strand_of(int task) const { return strands[as_size(task / microbatches)]; }
  [[nodiscard]] int ranks() const { return static_cast<int>(strands_of.size()); }
  [[nodiscard]] int tasks() const { return static_cast<int>(strands.size()) * microbatches; }

  const ChainModel& model;
  const std::vector<Slot>& tails;  ///< by task: no objective is below its end and this
  Objective objective;
  int microbatches;
  std::vector<Strand> strands;
  std::vector<std::vector<int>> strands_of;  ///< by rank
  std::vector<Slot> work;                    ///< by rank
  std::vector<Bytes> capacity;               ///< by rank
  std::vector<Bytes> weight_room;            ///< by rank: room for its largest W; 0 with B
  std::vector<Bytes> backward_room;          ///< by rank: room in which an I and its W, or a B, can run

 private:
  void reserve(std::size_t rank, int stage);
};

}  // namespace ppsim::verifier::synthesis

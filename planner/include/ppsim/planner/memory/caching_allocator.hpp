#pragma once

#include <array>
#include <map>
#include <set>
#include <utility>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::planner {

/// PyTorch's allocator of GPU memory, on one stream, with its default settings and memory without end. Blocks
/// are multiples of 512 bytes. Those of at most 1 MiB come out of segments of 2 MiB, those below 10 MiB out
/// of segments of 20 MiB, others have one in multiples of 2 MiB. The smallest free block that is large enough
/// is taken, and split where what is left is of use; free neighbours become one. Segments are kept.
/// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch.
class CachingAllocator {
 public:
  /// The address of a new block. Requires: size > 0.
  [[nodiscard]] Bytes allocate(Bytes size);
  /// Requires: the address of a block in use.
  void release(Bytes address);

  [[nodiscard]] Bytes allocated() const { return allocated_; }
  [[nodiscard]] Bytes reserved() const { return reserved_; }

 private:
  struct Block {
    Bytes size = 0;
    int segment = 0;
    bool small = false;
    bool free = false;
  };
  using Blocks = std::map<Bytes, Block>;
  using FreeBlocks = std::set<std::pair<Bytes, Bytes>>;  ///< by size and address

  [[nodiscard]] Blocks::iterator free_block(Bytes size, bool small);
  Blocks::iterator add_segment(Bytes size, bool small);
  void split(Blocks::iterator block, Bytes size);
  void set_free(Blocks::iterator block);
  /// Joins a free block with the one after it if that is free and of the same segment.
  void join_next(Blocks::iterator block);
  [[nodiscard]] FreeBlocks& pool(bool small) { return pools_[small ? 1 : 0]; }

  Blocks blocks_;  ///< by address; segments adjoin
  std::array<FreeBlocks, 2> pools_;
  int segments_ = 0;
  Bytes allocated_ = 0;
  Bytes reserved_ = 0;
};

}  // namespace ppsim::planner

#include "ppsim/planner/memory/caching_allocator.hpp"

#include <iterator>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::planner {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20U;
constexpr Bytes kBlock = 512;
constexpr Bytes kMaxSmall = kMiB;  // of a block out of a small segment
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kMinOwnSegment = 10 * kMiB;  // of a block with a segment of its size
constexpr Bytes kSharedSegment = 20 * kMiB;
constexpr Bytes kSegmentUnit = 2 * kMiB;

Bytes rounded_up(Bytes size, Bytes unit) { return checked_multiply((size - 1) / unit + 1, unit); }

Bytes segment_size(Bytes block) {
  if (block <= kMaxSmall) return kSmallSegment;
  return block < kMinOwnSegment ? kSharedSegment : rounded_up(block, kSegmentUnit);
}

}  // namespace

Bytes CachingAllocator::allocate(Bytes size) {
  PPSIM_CHECK(size > 0, "a block has bytes");
  const Bytes rounded = rounded_up(size, kBlock);
  const bool small = rounded <= kMaxSmall;
  auto block = free_block(rounded, small);
  if (block == blocks_.end()) block = add_segment(segment_size(rounded), small);
  pool(small).erase({block->second.size, block->first});
  block->second.free = false;
  split(block, rounded);
  allocated_ = checked_add(allocated_, block->second.size);
  return block->first;
}

void CachingAllocator::release(Bytes address) {
  const auto block = blocks_.find(address);
  PPSIM_CHECK(block != blocks_.end() && !block->second.free, "the block is in use");
  allocated_ -= block->second.size;
  set_free(block);
  join_next(block);
  if (block != blocks_.begin()) join_next(std::prev(block));
}

CachingAllocator::Blocks::iterator CachingAllocator::free_block(Bytes size, bool small) {
  const auto found = pool(small).lower_bound({size, 0});
  return found == pool(small).end() ? blocks_.end() : blocks_.find(found->second);
}

CachingAllocator::Blocks::iterator CachingAllocator::add_segment(Bytes size, bool small) {
  const Bytes address = reserved_;
  reserved_ = checked_add(reserved_, size);
  const auto block =
      blocks_.emplace(address, Block{.size = size, .segment = segments_++, .small = small}).first;
  set_free(block);
  return block;
}

void CachingAllocator::split(Blocks::iterator block, Bytes size) {
  const Bytes rest = block->second.size - size;
  if (block->second.small ? rest < kBlock : rest <= kMaxSmall) return;
  block->second.size = size;
  Block behind = block->second;
  behind.size = rest;
  set_free(blocks_.emplace(block->first + size, behind).first);
}

void CachingAllocator::set_free(Blocks::iterator block) {
  block->second.free = true;
  pool(block->second.small).emplace(block->second.size, block->first);
}

void CachingAllocator::join_next(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || !block->second.free || !next->second.free) return;
  if (block->second.segment != next->second.segment) return;
  pool(next->second.small).erase({next->second.size, next->first});
  pool(block->second.small).erase({block->second.size, block->first});
  block->second.size += next->second.size;
  blocks_.erase(next);
  set_free(block);
}

}  // namespace ppsim::planner

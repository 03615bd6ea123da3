#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/fake_gpu/faults.hpp"

namespace ppsim::test {

/// How far each lane has come for certain: a vector clock. Lanes are chains of tasks that run one after
/// another.
using LaneClock = std::vector<std::uint32_t>;
void merge(LaneClock& into, const LaneClock& from);
[[nodiscard]] inline std::uint32_t at(const LaneClock& clock, std::size_t lane) {
  return lane < clock.size() ? clock[lane] : 0;
}

/// Who accesses memory, and what is complete for certain when it does.
struct Accessor {
  std::size_t lane = 0;
  std::uint32_t number = 0;  ///< in its lane, from 1
  const LaneClock& clock;
  const std::string& name;
};

/// Device and pinned memory with guards around it, that knows of each byte who touched it last. Nothing that
/// was freed is used again, so that a later use of it shows.
class FakeMemory {
 public:
  explicit FakeMemory(Faults& faults) : faults_(faults) {}

  [[nodiscard]] std::byte* allocate(std::size_t bytes, std::string what);
  void free(const std::byte* memory);
  /// Both return whether the bytes are there to be touched.
  [[nodiscard]] bool read(std::span<const std::byte> memory, const Accessor& who);
  [[nodiscard]] bool write(std::span<const std::byte> memory, const Accessor& who);
  /// Reports what was never freed.
  void report_leaks();

 private:
  struct Epoch {
    std::size_t lane;
    std::uint32_t number;
    std::string name;
  };
  /// Bytes with one history, up to the next piece or the end of the allocation.
  struct Piece {
    bool written = false;
    Epoch writer = {};
    std::vector<Epoch> readers = {};  ///< since the last write, one for each lane
  };
  struct Allocation {
    std::string what;
    std::unique_ptr<std::byte[]> storage;
    std::byte* begin = nullptr;
    std::size_t size = 0;
    bool freed = false;
    std::map<std::size_t, Piece> pieces;  ///< by offset
  };

  [[nodiscard]] Allocation* find(const std::byte* memory);
  [[nodiscard]] Allocation* checked(std::span<const std::byte> memory, const Accessor& who);
  static void split(Allocation& allocation, std::size_t offset);
  void check_order(const Epoch& before, const Accessor& who, const char* how);
  void check_guards(const Allocation& allocation);

  Faults& faults_;
  std::map<const std::byte*, Allocation> allocations_;  ///< by begin
};

}  // namespace ppsim::test

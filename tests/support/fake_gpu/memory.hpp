#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// The task that accesses memory, and the tasks that are certainly complete then.
struct Accessor {
  std::size_t lane = 0;
  std::uint32_t number = 0;  ///< in its lane, from 1
  const LaneClock& clock;
  const std::string& name;
  int process = 0;
};

/// Memory from the operating system, so that another process may have the same bytes at another address.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  /// As a file in a folder, named by its address, which another process can map.
  Pages(std::size_t bytes, const std::string& folder);
  /// The same bytes at another address.
  explicit Pages(const Pages& same, std::size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::string file_ = {};
};
/// Of every allocation in its pages.
inline constexpr std::size_t kGuard = 256;
/// The file of the pages that begin at an address.
[[nodiscard]] std::string file_of_pages(const std::string& folder, std::uintptr_t begin);

/// Device and pinned memory with guards around it, that knows of each byte who touched it last. Nothing that
/// was freed is used again, so that a later use of it shows.
class FakeMemory {
 public:
  /// `pinned_folder`: as in Pages; empty: none.
  explicit FakeMemory(Faults& faults, std::string pinned_folder = {})
      : faults_(faults), pinned_folder_(std::move(pinned_folder)) {}

  /// The name of an allocation, and the process that makes it.
  struct Wanted {
    std::string what;
    int process = 0;
    bool on_device = true;
  };
  [[nodiscard]] std::byte* allocate(std::size_t bytes, const Wanted& wanted);
  void free(const std::byte* memory);
  /// The allocation that an address is in; empty: none.
  [[nodiscard]] std::span<std::byte> allocation_at(const std::byte* memory);
  /// Whether a process may lend the allocation that begins there: its own device memory.
  [[nodiscard]] bool may_lend(const std::byte* memory, int process);
  /// Gives another process the allocation that begins there, at an address that no other one uses. Returns:
  /// null where it was freed, is the borrower's own, or is of a process that may not lend it anything.
  [[nodiscard]] std::byte* borrow(const std::byte* memory, int process,
                                  const std::function<bool(int lender)>& may_lend);
  /// Requires: borrowed memory, else it is a fault.
  void give_back(const std::byte* memory);
  /// Both return whether the bytes may be accessed.
  [[nodiscard]] bool read(std::span<const std::byte> memory, const Accessor& who);
  [[nodiscard]] bool write(std::span<const std::byte> memory, const Accessor& who);
  /// Reports memory that was never freed.
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
    int process = 0;
    bool on_device = true;
    std::unique_ptr<Pages> pages;
    std::byte* begin = nullptr;
    std::size_t size = 0;
    bool freed = false;
    Allocation* lender = nullptr;  ///< of borrowed memory
    int borrowers = 0;
    std::map<std::size_t, Piece> pieces;  ///< by offset
  };

  [[nodiscard]] Allocation* find(const std::byte* memory);
  /// The history of bytes that may be accessed, and where in it they begin.
  struct Place {
    Allocation* of = nullptr;
    std::size_t first = 0;
  };
  [[nodiscard]] Place checked(std::span<const std::byte> memory, const Accessor& who);
  static void split(Allocation& allocation, std::size_t offset);
  void check_order(const Epoch& before, const Accessor& who, const char* how);
  void check_guards(const Allocation& allocation);

  Faults& faults_;
  std::string pinned_folder_;
  std::map<const std::byte*, Allocation> allocations_;  ///< by begin
};

}  // namespace ppsim::test

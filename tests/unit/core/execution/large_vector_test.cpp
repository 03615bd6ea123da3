#include "ppsim/core/execution/large_vector.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>

namespace ppsim {
namespace {

/// Fresh memory of the system, and how many of its pages are there.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        count_(count),
        memory_(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    static_cast<void>(madvise(memory_, bytes(), MADV_NOHUGEPAGE));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(memory_, bytes()); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_ * count_; }
  [[nodiscard]] void* memory() const { return memory_; }
  [[nodiscard]] std::size_t present() const {
    std::vector<unsigned char> is_present(count_);
    mincore(memory_, bytes(), is_present.data());
    return static_cast<std::size_t>(
        std::ranges::count_if(is_present, [](unsigned char page) { return (page & 1U) != 0; }));
  }

 private:
  std::size_t size_;
  std::size_t count_;
  void* memory_;
};

/// Whether the system takes such advice, and there is another processor to ask beside this one.
bool pages_can_be_asked_for([[maybe_unused]] void* memory) {
#ifdef MADV_POPULATE_WRITE
  return std::thread::hardware_concurrency() >= 2 && madvise(memory, 0, MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

TEST(LargeVector, EveryPageIsAskedForWhereTheShareIsWorthAThread) {
  const Pages pages(9);
  ask_for_pages(pages.memory(), pages.bytes(), pages.bytes());
  EXPECT_EQ(pages.present(), 0U);
  ask_for_pages(pages.memory(), pages.bytes(), 4 * pages.size());
  EXPECT_EQ(pages.present(), pages_can_be_asked_for(pages.memory()) ? 9U : 0U);
}

TEST(LargeVector, MemoryBesideThePagesStaysAsItIs) {
  std::vector<std::uint8_t> bytes(100'000, 7);
  ask_for_pages(bytes.data() + 1, bytes.size() - 2, 1);
  EXPECT_EQ(std::ranges::count(bytes, 7), 100'000);
  ask_for_pages(bytes.data() + 1, 10, 1);  // less than a page
  ask_for_pages(bytes.data(), 0, 1);
  EXPECT_EQ(std::ranges::count(bytes, 7), 100'000);
}

TEST(LargeVector, HoldsWhatIsWrittenWhateverTheShare) {
  for (const std::size_t share : {std::size_t{1}, std::size_t{4096}, kPagesOfAThread}) {
    LargeVector<int> items = large_vector<int>(50'000, share);
    ASSERT_EQ(items.size(), 50'000U);
    std::iota(items.begin(), items.end(), 0);
    const LargeVector<int> copy = items;
    items.push_back(50'000);
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), items.begin()));
    EXPECT_EQ(items.back(), 50'000);
  }
  EXPECT_TRUE(large_vector<int>(0, 1).empty());
}

TEST(LargeVector, OnlyItemsWithoutAValueAreLeftUnset) {
  struct Item {
    int value = 3;
  };
  LargeVector<Item> items;
  items.resize(2, Item{5});
  items.emplace_back(Item{6});
  EXPECT_EQ(items[1].value, 5);
  EXPECT_EQ(items[2].value, 6);
  items.clear();
  items.resize(1);  // in the memory of the first
  EXPECT_EQ(items[0].value, 5);
}

}  // namespace
}  // namespace ppsim

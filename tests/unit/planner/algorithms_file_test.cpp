#include "ppsim/planner/algorithms_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

Algorithms two_products() {
  return {
      "a device",
      "cuBLASLt 13.1.0",
      {{"bf16 8 x 8 by 8, added", 132, "00ff", 100, 120}, {"bf16 8 x 8 by 8, added", 32, "01ff", 400, 400}}};
}

/// A file of this test alone, gone when it ends.
class AlgorithmsOnDisk : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "ppsim-algorithms-" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST(AlgorithmsJson, ReadsWhatItWrites) {
  EXPECT_EQ(algorithms_from_json(to_json(two_products()), "f").value(), two_products());
}

TEST(AlgorithmsJson, AProductThatIsThereTwiceIsAnError) {
  Algorithms twice = two_products();
  twice.products[1].multiprocessors = 132;
  const auto read = algorithms_from_json(to_json(twice), "f");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::bad_file);
  EXPECT_NE(to_string(read.error()).find("a product given twice for one number of multiprocessors"),
            std::string::npos)
      << to_string(read.error());
}

TEST(AlgorithmsJson, OfAnotherKindIsAnError) {
  for (const char* text : {"", "[]", R"({"format": "ppsim-tables", "version": 1})",
                           R"({"format": "ppsim-algorithms", "version": 2})",
                           R"({"format": "ppsim-algorithms", "version": 1, "products": []})",
                           R"({"format": "ppsim-algorithms", "version": 1, "device": "d", "library": "l",
                               "products": [{"product": "p", "multiprocessors": 0, "algorithm": "00"}]})"}) {
    const auto read = algorithms_from_json(text, "f");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::bad_file) << text;
  }
}

TEST_F(AlgorithmsOnDisk, AreWrittenWhenSomeWereAdded) {
  auto file = AlgorithmsFile::open(path_).value();
  ASSERT_TRUE(file.keep());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing was timed";
  file.algorithms() = two_products();
  EXPECT_EQ(file.text(), "2 products by the algorithms of " + path_ + ", 2 of them timed in this run");
  ASSERT_TRUE(file.keep());
  auto again = AlgorithmsFile::open(path_).value();
  EXPECT_EQ(again.algorithms(), two_products());
  EXPECT_EQ(again.text(), "2 products by the algorithms of " + path_);
}

TEST_F(AlgorithmsOnDisk, InAFolderThatIsNotThereAreRefusedBeforeTheRun) {
  const auto file = AlgorithmsFile::open(path_ + "/nowhere/file.json");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace ppsim::planner

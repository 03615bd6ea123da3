#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <mutex>
#include <thread>

#include "ppsim/planner/study.hpp"

namespace ppsim {
namespace {

constexpr const char* kStudy = R"({
  "base": {"model": "llama3-8b:layers=8,sequence=2048", "cluster": "dgx-h100", "nodes": 1,
           "global_batch_size": 16},
  "axes": {"tp": [1, 2, 3], "pp": [1, 2, 4], "schedule": ["1f1b", "zb-v"], "recompute": ["none", "minimal"]}
})";

/// Processes as threads: all wait for all.
class Meeting {
 public:
  explicit Meeting(int processes) : all_(processes), texts_(static_cast<std::size_t>(processes)) {}

  std::vector<std::string> exchange(int process, const std::string& text) {
    texts_[static_cast<std::size_t>(process)] = text;
    all_.arrive_and_wait();
    std::vector<std::string> heard = texts_;
    all_.arrive_and_wait();
    return heard;
  }

 private:
  std::barrier<> all_;
  std::vector<std::string> texts_;
};

class StudyRounds : public testing::Test {
 protected:
  StudyRounds() { std::filesystem::create_directories(folder_); }
  ~StudyRounds() override { std::filesystem::remove_all(folder_); }
  StudyRounds(const StudyRounds&) = delete;
  StudyRounds& operator=(const StudyRounds&) = delete;

  [[nodiscard]] StudyStore store(const std::string& name) const {
    return StudyStore::open(folder_ / (name + ".sqlite")).value();
  }

  /// How many points each process has evaluated.
  std::vector<std::size_t> run(int processes, StudyStore& store) const {
    Meeting meeting(processes);
    std::vector<std::size_t> evaluated(static_cast<std::size_t>(processes));
    std::vector<std::jthread> threads;
    for (int p = 0; p < processes; ++p) {
      threads.emplace_back([&, p] {
        const StudyGroup group{p, processes,
                               [&, p](const std::string& text) -> Expected<std::vector<std::string>> {
                                 return meeting.exchange(p, text);
                               }};
        evaluated[static_cast<std::size_t>(p)] =
            run_study_in_rounds(study_, p == 0 ? &store : nullptr, {.jobs = 1}, group).value();
      });
    }
    threads.clear();
    return evaluated;
  }

  const Study study_ = read_study(kStudy, "study.json").value();

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("study-rounds-" + std::to_string(::getpid()));
};

TEST_F(StudyRounds, HaveTheRowsOfOneProcess) {
  StudyStore alone = store("alone");
  ASSERT_EQ(run_study(study_, alone, {}).value(), study_.points.size());
  const auto expected = alone.results().value();
  for (const int processes : {1, 3}) {
    StudyStore first = store(std::to_string(processes));
    std::size_t sum = 0;
    for (const std::size_t count : run(processes, first)) {
      EXPECT_GT(count, 0U);
      sum += count;
    }
    EXPECT_EQ(sum, study_.points.size());
    EXPECT_EQ(first.results().value(), expected) << processes;
  }
}

TEST_F(StudyRounds, DoWhatTheStoreLacks) {
  StudyStore store = this->store("some");
  ASSERT_TRUE(run_study(study_, store, {.shard = 1, .shards = 3}).has_value());
  const std::size_t known = store.results().value().size();
  std::size_t sum = 0;
  for (const std::size_t count : run(2, store)) sum += count;
  EXPECT_EQ(sum, study_.points.size() - known);
  EXPECT_EQ(run(2, store), (std::vector<std::size_t>{0, 0}));
}

TEST_F(StudyRounds, EndWithTheErrorOfTheExchange) {
  StudyStore first = store("broken");
  const StudyGroup group{0, 2, [](const std::string&) -> Expected<std::vector<std::string>> {
                           return make_error(ErrorCode::io, "process 1 is gone");
                         }};
  EXPECT_EQ(run_study_in_rounds(study_, &first, {}, group).error().message, "process 1 is gone");
}

}  // namespace
}  // namespace ppsim

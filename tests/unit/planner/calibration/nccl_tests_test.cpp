#include "ppsim/planner/calibration/nccl_tests.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

// As nccl-tests prints them: header and rows of src/common.cu and src/util.cu, devices of two nodes.
const std::string kTwoNodes =
    "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   6733 on node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   6734 on node-b device  1 [0000:05:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                       "
    "in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
    "(GB/s)\n"
    "           0             0     float     sum      -1     0.22    0.00    0.00       0     0.20    0.00  "
    "  0.00       0\n"
    "         512           128     float     sum      -1    21.50    0.02    0.04       0    20.10    0.03  "
    "  0.04       0\n"
    "        1024           256     float     sum      -1    24.04    0.04    0.08       0    99.99    0.05  "
    "  0.08       0\n";
const std::string kEnd = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.0612\n";

std::string message(const std::string& text, const std::string& file = "run.txt") {
  const auto read = read_nccl_tests(text, file);
  return read ? std::string("accepted") : to_string(read.error());
}
void expect_words(const std::string& found, const std::string& words) {
  EXPECT_NE(found.find(words), std::string::npos) << found;
}

TEST(NcclTests, ReadsSizesTimesAndNodes) {
  const auto read = read_nccl_tests(kTwoNodes + kEnd, "run.txt").value();
  const MeasuredCollective expected{MeasuredOperation::all_reduce, {4, 2}, {{512, 21'500}, {1024, 24'040}}};
  EXPECT_EQ(read, expected);
}

TEST(NcclTests, TakesTheMeanOfASizeThatOccursTwice) {
  const std::string again =
      "         512           128     float     sum      -1    22.50    0.02    0.04       0    20.10    "
      "0.03    0.04       0\n";
  EXPECT_EQ(read_nccl_tests(kTwoNodes + again + kEnd, "run.txt")->times.front().time, 22'000);
}

TEST(NcclTests, TheOperationIsGivenOrOfTheFilesName) {
  std::string unnamed = kTwoNodes + kEnd;
  unnamed.erase(unnamed.find("# Collective test"),
                std::string("# Collective test starting: all_reduce_perf\n").size());
  expect_words(message(unnamed), "does not say which operation");
  EXPECT_EQ(read_nccl_tests(unnamed, "out/alltoall-16.txt")->operation, MeasuredOperation::all_to_all);
  EXPECT_EQ(read_nccl_tests(unnamed, "run.txt", MeasuredOperation::send_receive)->operation,
            MeasuredOperation::send_receive);
  std::string broadcast = kTwoNodes + kEnd;
  broadcast.replace(broadcast.find("all_reduce_perf"), 15, "broadcast_perf ");
  expect_words(message(broadcast), "an operation that no step has");
}

TEST(NcclTests, ColumnsAreFoundByTheirNames) {
  // Before version 2.11 there was no root of all-reduces.
  const std::string old =
      "#  Rank  0 Pid 1 on a device  0 [0x04] V100\n#  Rank  1 Pid 2 on a device  1 [0x05] V100\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
      "error\n"
      "         512           128   float     sum    21.50    0.02    0.04  1e-07    20.10    0.03    0.04  "
      "0e+00\n";
  const auto read = read_nccl_tests(old + kEnd, "all_reduce.txt").value();
  EXPECT_EQ(read.times.front().time, 21'500);
  EXPECT_EQ(read.group, (GpuGroup{2, 2}));
}

TEST(NcclTests, RefusesWhatSaysNothing) {
  expect_words(message(""), "an empty file");
  expect_words(message("hello\n1 2 3\n"), "no output of nccl-tests");
  expect_words(message(kTwoNodes), "the output was cut off");
  expect_words(message(kTwoNodes.substr(0, kTwoNodes.size() - 90)), "a row was cut off");
  expect_words(message(kTwoNodes.substr(0, kTwoNodes.size() - 90)), "run.txt:15");
  expect_words(message(kTwoNodes + "# Out of bounds values : 3 FAILED\n" + kEnd),
               "results of this run were wrong");
  std::string host = kTwoNodes + kEnd;
  host.replace(host.find("root     time"), 13, "root  cputime");
  expect_words(message(host), "times of the host");
  std::string no_time = kTwoNodes + kEnd;
  no_time.replace(no_time.find("21.50"), 5, "x1.50");
  expect_words(message(no_time), "not a time in microseconds");
  expect_words(message(kTwoNodes.substr(0, kTwoNodes.find("         512")) + kEnd), "no measurement");
  std::string uneven = kTwoNodes + kEnd;
  uneven.replace(uneven.find("node-b"), 6, "node-a");
  expect_words(message(uneven), "different numbers of GPUs");
}

TEST(NcclTests, RefusesRowsWithWrongValues) {
  for (const std::string count : {"3", "1.00", "nan"}) {
    for (const std::string column : {"0.04       0    20.10", "0.04       0\n        1024"}) {
      std::string text = kTwoNodes + kEnd;
      text.replace(text.find(column) + 11, 1, count);
      expect_words(message(text), "results of this run were wrong (found #wrong " + count);
      expect_words(message(text), "run.txt:14");
    }
  }
  std::string unchecked = kTwoNodes + kEnd;
  unchecked.replace(unchecked.find("0.04       0    20.10") + 9, 3, "N/A");
  EXPECT_EQ(message(unchecked), "accepted");
}

std::string json(const std::string& devices, const std::string& results, const std::string& more = "") {
  return R"({"version": 1, "args": ["./build/reduce_scatter_perf", "-J"], "config": {"nthreads": 1, "ngpus": 1)" +
         more + R"(, "devices": [)" + devices + R"(]}, "results": [)" + results + "]}";
}
const std::string kDevices =
    R"({"rank": 0, "group": 0, "hostname": "a"}, {"rank": 1, "group": 0, "hostname": "a"})";
const std::string kResult =
    R"({"size": 2048, "count": 512, "type": "float", "out_of_place": {"time": 12.5, "alg_bw": 1, "bus_bw": 1, "nwrong": 0}, "in_place": {"time": 1}})";

TEST(NcclTests, ReadsJson) {
  const auto read = read_nccl_tests(json(kDevices, kResult), "run.json").value();
  EXPECT_EQ(read, (MeasuredCollective{MeasuredOperation::reduce_scatter, {2, 2}, {{2048, 12'500}}}));
  // A process of several GPUs lists its first one alone.
  const std::string two = R"({"rank": 0, "hostname": "a"}, {"rank": 8, "hostname": "b"})";
  std::string several = json(two, kResult);
  several.replace(several.find(R"("ngpus": 1)"), 10, R"("ngpus": 8)");
  EXPECT_EQ(read_nccl_tests(several, "run.json")->group, (GpuGroup{16, 8}));
}

TEST(NcclTests, RefusesJsonThatSaysNothing) {
  expect_words(message("{}"), "no output of nccl-tests");
  expect_words(message(json(kDevices, kResult).substr(0, 200)), "run.txt:1:");
  expect_words(message(json("", kResult)), "communication needs two GPUs");
  expect_words(message(json(R"({"rank": 0})", kResult)), "a device without its host");
  expect_words(message(json(kDevices, "")), "no measurement");
  expect_words(message(json(kDevices, R"({"size": 8, "out_of_place": null})")), "a result without a time");
  expect_words(message(json(kDevices, R"({"size": 8, "out_of_place": {"cpu_time": 1}})")), "cpu_time");
  expect_words(message(json(kDevices, R"({"size": 8, "out_of_place": {"time": -1}})")), "not a time");
  expect_words(message(json(kDevices, R"({"size": 8, "out_of_place": {"time": 1, "nwrong": 2}})")),
               "were wrong");
  expect_words(message(json(kDevices, R"({"size": "8"})")), "a result without its size");
}

/// Whatever a file is, it is read or refused.
TEST(NcclTests, EveryBeginningIsReadOrRefused) {
  for (const std::string& whole : {kTwoNodes + kEnd, json(kDevices, kResult)}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto read = read_nccl_tests(whole.substr(0, length), "all_reduce.txt");
      EXPECT_TRUE(read || !read.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace ppsim

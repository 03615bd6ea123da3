#include "ppsim/simulator/writers/perfetto.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/finished_run.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::communicators;
using test::cost_table;
using test::FinishedRun;
using test::HandProgram;
using enum OpKind;

FinishedRun two_ranks() {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight}, 100);
  return {test::two_rank_step(),
          cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}}),
          sizes};
}

FinishedRun grouped() {
  const Program program =
      HandProgram{{.ranks = 2, .stages = 2, .microbatches = 2},
                  communicators({{0, 1}, {0, 1}}),
                  {{"0F0", "0F1", "{0SEND_F0@0 0SEND_F1@1}"}, {"{1RECV_F0@0 1RECV_F1@1}", "1F0", "1F1"}}}
          .build();
  return {program, cost_table({{forward, -1, 5}, {send_forward, -1, 2}})};
}

nlohmann::json chrome_events(const FinishedRun& run) {
  std::ostringstream out;
  write_chrome_trace(out, run.timed_run());
  return nlohmann::json::parse(out.str()).at("traceEvents");
}

std::vector<nlohmann::json> with_phase(const nlohmann::json& events, const std::string& phase) {
  std::vector<nlohmann::json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const nlohmann::json& event) { return event.at("ph") == phase; });
  return found;
}

TEST(ChromeTrace, SlicesHaveRankQueueNameAndTime) {
  const auto slices = with_phase(chrome_events(two_ranks()), "X");
  ASSERT_EQ(slices.size(), 8U);
  const auto recv =
      std::find_if(slices.begin(), slices.end(), [](const auto& s) { return s["name"] == "PP:0RECV_B0"; });
  ASSERT_NE(recv, slices.end());
  EXPECT_EQ(recv->at("pid"), 0);
  EXPECT_EQ(recv->at("tid"), 4);  // queue 3
  EXPECT_EQ(recv->at("ts"), 0.0);
  EXPECT_EQ(recv->at("dur"), 0.047);
}

TEST(ChromeTrace, SeveralRunsHaveProcessesAndFlowsOfTheirOwn) {
  const FinishedRun run = two_ranks();
  const std::vector<TracedRun> runs = {{"measured", run.timed_run()}, {"simulated", run.timed_run()}};
  std::ostringstream out;
  write_chrome_trace(out, runs);
  const auto events = nlohmann::json::parse(out.str()).at("traceEvents");
  std::map<int, std::string> names;
  for (const auto& event : with_phase(events, "M")) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(
      names,
      (std::map<int, std::string>{
          {0, "rank 0 measured"}, {1, "rank 0 simulated"}, {2, "rank 1 measured"}, {3, "rank 1 simulated"}}));
  EXPECT_EQ(with_phase(events, "X").size(), 16U);
  std::set<int> flows;
  for (const auto& flow : with_phase(events, "s")) flows.insert(flow["id"].get<int>());
  EXPECT_EQ(flows, (std::set<int>{0, 1, 2, 3}));
}

TEST(ChromeTrace, SlicesOfOneThreadNeverOverlap) {
  for (const FinishedRun& run : {two_ranks(), grouped()}) {
    std::map<std::pair<int, int>, double> free;
    for (const auto& slice : with_phase(chrome_events(run), "X")) {
      double& since = free[{slice["pid"], slice["tid"]}];
      EXPECT_GE(slice["ts"].get<double>(), since) << slice;
      since = slice["ts"].get<double>() + slice["dur"].get<double>();
    }
  }
}

TEST(ChromeTrace, GroupIsOnAllItsQueues) {
  std::set<int> threads;
  for (const auto& slice : with_phase(chrome_events(grouped()), "X")) {
    if (slice["name"] == "PP:{0SEND_F0 0SEND_F1}") threads.insert(slice["tid"].get<int>());
  }
  EXPECT_EQ(threads, (std::set<int>{3, 4}));
}

TEST(ChromeTrace, FlowsGoForwardFromSendToReceive) {
  const auto events = chrome_events(two_ranks());
  const auto starts = with_phase(events, "s");
  const auto finishes = with_phase(events, "f");
  ASSERT_EQ(starts.size(), 2U);
  ASSERT_EQ(finishes.size(), 2U);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i]["id"], finishes[i]["id"]);
    EXPECT_NE(starts[i]["pid"], finishes[i]["pid"]);
    EXPECT_LE(starts[i]["ts"], finishes[i]["ts"]);
    EXPECT_EQ(finishes[i]["bp"], "e");
  }
}

TEST(ChromeTrace, MemoryIsACounterOfItsRank) {
  double most = 0;
  for (const auto& point : with_phase(chrome_events(two_ranks()), "C"))
    most = std::max(most, point["args"]["bytes"].get<double>());
  EXPECT_EQ(most, 100);
  EXPECT_TRUE(with_phase(chrome_events(grouped()), "C").empty());
}

/// A protobuf message as its fields by number; an independent reading of the wire format.
class WireMessage {
 public:
  explicit WireMessage(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::uint64_t key = varint(bytes, at);
      const auto field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0:
          numbers_[field].push_back(varint(bytes, at));
          break;
        case 1: {
          std::uint64_t value = 0;
          for (int i = 7; i >= 0; --i)
            value = value << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i)));
          numbers_[field].push_back(value);
          at += 8;
          break;
        }
        case 2: {
          const std::uint64_t size = varint(bytes, at);
          strings_[field].push_back(bytes.substr(at, size));
          at += size;
          break;
        }
        default:
          throw std::runtime_error("wire type");
      }
    }
  }

  [[nodiscard]] bool has(int field) const { return numbers_.count(field) + strings_.count(field) > 0; }
  [[nodiscard]] std::uint64_t number(int field) const { return numbers_.at(field).at(0); }
  [[nodiscard]] const std::string& text(int field) const { return strings_.at(field).at(0); }
  [[nodiscard]] WireMessage message(int field) const { return WireMessage(text(field)); }
  [[nodiscard]] std::vector<WireMessage> messages(int field) const {
    return {strings_.at(field).begin(), strings_.at(field).end()};
  }

 private:
  static std::uint64_t varint(const std::string& bytes, std::size_t& at) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }

  std::map<int, std::vector<std::uint64_t>> numbers_;
  std::map<int, std::vector<std::string>> strings_;
};

std::vector<WireMessage> packets(const FinishedRun& run) {
  std::ostringstream out;
  write_perfetto_trace(out, run.timed_run());
  return WireMessage(out.str()).messages(1);
}

TEST(PerfettoTrace, SlicesBeginAndEndOnDescribedTracks) {
  std::set<std::uint64_t> tracks;
  std::map<std::uint64_t, int> open;
  std::set<std::string> names;
  for (const WireMessage& packet : packets(two_ranks())) {
    EXPECT_EQ(packet.number(10), 1U);
    if (packet.has(60)) {
      tracks.insert(packet.message(60).number(1));
      continue;
    }
    const WireMessage event = packet.message(11);
    EXPECT_TRUE(tracks.count(event.number(11)));
    int& depth = open[event.number(11)];
    if (event.number(9) == 1) {
      EXPECT_EQ(depth++, 0);
      names.insert(event.text(23));
    } else if (event.number(9) == 2) {
      EXPECT_EQ(--depth, 0);
    }
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_TRUE(names.count("PP:1B0"));
  for (const auto& [track, depth] : open) EXPECT_EQ(depth, 0);
}

TEST(PerfettoTrace, TimesAreNanoseconds) {
  std::uint64_t last = 0;
  for (const WireMessage& packet : packets(two_ranks())) {
    if (packet.has(8)) last = std::max(last, packet.number(8));
  }
  EXPECT_EQ(last, 67U);
}

TEST(PerfettoTrace, FlowsJoinOneDepartureAndOneArrival) {
  std::map<std::uint64_t, std::uint64_t> leaves;
  std::map<std::uint64_t, std::uint64_t> arrives;
  for (const WireMessage& packet : packets(two_ranks())) {
    if (!packet.has(11)) continue;
    const WireMessage event = packet.message(11);
    if (event.has(47)) leaves[event.number(47)] = packet.number(8);
    if (event.has(48)) arrives[event.number(48)] = packet.number(8);
  }
  ASSERT_EQ(leaves.size(), 2U);
  for (const auto& [flow, time] : leaves) EXPECT_LE(time, arrives.at(flow));
}

TEST(PerfettoTrace, RanksAreProcessesWithMemoryInBytes) {
  int processes = 0;
  int counters = 0;
  std::uint64_t most = 0;
  for (const WireMessage& packet : packets(two_ranks())) {
    if (packet.has(60) && packet.message(60).has(3)) {
      EXPECT_EQ(packet.message(60).message(3).number(1), static_cast<std::uint64_t>(++processes));
    }
    if (packet.has(60) && packet.message(60).has(8))
      counters += packet.message(60).message(8).number(3) == 3 ? 1 : 0;
    if (packet.has(11) && packet.message(11).has(30)) most = std::max(most, packet.message(11).number(30));
  }
  EXPECT_EQ(processes, 2);
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(most, 100U);
}

}  // namespace
}  // namespace ppsim

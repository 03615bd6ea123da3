#include "ppsim/simulator/writers/report.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/finished_run.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::cost_table;
using test::FinishedRun;
using enum OpKind;

FinishedRun reported_step() {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight}, 100);
  return {test::two_rank_step(),
          cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}}),
          sizes};
}

std::string report(const std::string& name, const std::string& title) {
  const FinishedRun run = reported_step();
  const RunMetrics metrics = run.metrics();
  const ReportEntry entry{
      name, run.timed_run(), metrics, 80, {{"deadlock_free", "proved", ReportFact::Tone::good}}};
  std::ostringstream out;
  write_report(out, std::vector{entry, entry}, {.title = title});
  return out.str();
}

/// The data that the page's script reads.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::string from_base64(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    if (letter == '=') break;
    bits = (bits << 6U) | static_cast<unsigned>(letters.find(letter));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
  }
  return bytes;
}

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 127U) << shift;
    if (byte < 128) return value;
  }
}

/// The numbers of a packed column, as the page's script reads them.
std::vector<std::int64_t> numbers(const nlohmann::json& packed) {
  const std::string from = from_base64(packed.get<std::string>());
  std::string bytes;
  std::size_t at = 0;
  const std::uint64_t size = varint(from, at);
  while (true) {
    const std::uint64_t literals = varint(from, at);
    bytes += from.substr(at, literals);
    at += literals;
    const std::uint64_t length = varint(from, at);
    if (length == 0) break;
    const std::uint64_t distance = varint(from, at);
    for (std::uint64_t i = 0; i < length; ++i) bytes += bytes.at(bytes.size() - distance);
  }
  EXPECT_EQ(bytes.size(), size);
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::uint64_t zigzag = varint(bytes, i);
    values.push_back(static_cast<std::int64_t>(zigzag >> 1U) ^ -static_cast<std::int64_t>(zigzag & 1U));
  }
  return values;
}
using Numbers = std::vector<std::int64_t>;

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = report("a", "b");
  for (const char* forbidden : {"http://", "https://", "src=", "href=", "import ", "@import", "url("}) {
    EXPECT_EQ(page.find(forbidden), std::string::npos) << forbidden;
  }
}

TEST(Report, LaysAMeasuredRunOverTheSimulatedOne) {
  const FinishedRun run = reported_step();
  TimedRun measured = run.timed_run();
  measured.measured = true;
  const RunMetrics metrics = measure(measured);
  EXPECT_TRUE(critical_path(measured).empty());
  EXPECT_EQ(metrics.ranks[RankId(0)].bubble, run.metrics().ranks[RankId(0)].bubble);
  std::ostringstream out;
  write_report(
      out, std::vector<ReportEntry>{{"measured", measured, metrics}, {"simulated", run.timed_run(), metrics}},
      {.title = "t", .hint = "Measured <above>.", .overlay = true});
  EXPECT_NE(out.str().find("Measured &lt;above>."), std::string::npos);
  const nlohmann::json data = data_of(out.str());
  EXPECT_EQ(data["overlay"], true);
  EXPECT_EQ(data["runs"][0]["transfers"], data["runs"][1]["transfers"]);
}

TEST(Report, MarksPadding) {
  const Schedule schedule = generate("spmd-gpipe", {.ranks = 2, .microbatches = 2}).value();
  const FinishedRun run{lower(schedule, {}).value(), cost_table({{forward, -1, 10}, {backward, -1, 20}}), {}};
  const RunMetrics metrics = run.metrics();
  std::ostringstream out;
  write_report(out, std::vector{ReportEntry{"a", run.timed_run(), metrics}}, {.title = "t"});
  std::map<std::string, std::set<std::size_t>> lengths;  // of the parts, 4 where they are padding
  const nlohmann::json data = data_of(out.str());
  for (const auto& text : data["runs"][0]["texts"])
    for (const auto& part : text["parts"]) lengths[text["text"].get<std::string>()].insert(part.size());
  EXPECT_EQ(lengths["0F#"], (std::set<std::size_t>{3, 4}));
  EXPECT_EQ(lengths["1B#"], (std::set<std::size_t>{3, 4}));
}

TEST(Report, HoldsTheFiguresOfEveryRun) {
  const nlohmann::json data = data_of(report("1f1b", "title"));
  ASSERT_EQ(data["runs"].size(), 2U);
  const nlohmann::json& run = data["runs"][0];
  EXPECT_EQ(run["name"], "1f1b");
  EXPECT_EQ(run["makespan"], 67);
  EXPECT_EQ(run["limit"], 80);
  EXPECT_EQ(run["ranks"][0]["peak"], 100);
  EXPECT_EQ(run["ranks"][0]["bubble"], (nlohmann::json{33, 0, 0, 4, 0}));
  EXPECT_EQ(run["transfers"]["counts"], (nlohmann::json{1, 1}));
  EXPECT_EQ(numbers(run["transfers"]["to"]), (Numbers{1, -1}));
  EXPECT_EQ(numbers(run["transfers"]["begin"]), (Numbers{10, 43}));
  EXPECT_EQ(numbers(run["transfers"]["duration"]), (Numbers{3, 4}));
  EXPECT_EQ(numbers(run["critical"]["rank"]).back(), 0);
  EXPECT_EQ(numbers(run["critical"]["duration"]), (Numbers{10, 3, 10, 20, 4, 20}));
  EXPECT_EQ(run["memoryKinds"].size(), 1U);
  EXPECT_EQ(run["memory"]["counts"].size(), 2U);
  EXPECT_EQ(run["facts"][0]["tone"], 1);
}

TEST(Report, SaysWhoseWorkIsAnother) {
  const FinishedRun run = reported_step();
  const RunMetrics metrics = run.metrics();
  std::vector<ReportEntry> entries(2, {"a", run.timed_run(), metrics});
  entries[0].work = "1.00x";
  entries[1].work = "2.00x";
  entries[1].same_work = false;
  std::ostringstream out;
  write_report(out, entries, {.title = "t"});
  const nlohmann::json data = data_of(out.str());
  EXPECT_EQ(data["runs"][0]["sameWork"], true);
  EXPECT_EQ(data["runs"][1]["work"], "2.00x");
  EXPECT_EQ(data["runs"][1]["sameWork"], false);
  EXPECT_EQ(data_of(report("1f1b", "title"))["runs"][0]["work"], "");
}

TEST(Report, CellsSayWhatTheyAreAndWaitedFor) {
  const nlohmann::json run = data_of(report("1f1b", "title"))["runs"][0];
  const nlohmann::json& cells = run["cells"];
  EXPECT_EQ(cells["counts"], (nlohmann::json{2, 2}));
  EXPECT_EQ(numbers(cells["gap"]), (Numbers{0, 37, 13, 0}));
  EXPECT_EQ(numbers(cells["duration"]), (Numbers{10, 20, 10, 20}));
  const auto text_of = [&](std::int64_t index) {
    return index == 0 ? "" : run["texts"][static_cast<std::size_t>(index - 1)]["text"].get<std::string>();
  };
  std::vector<std::string> texts;
  for (const std::int64_t text : numbers(cells["what"]["text"])) texts.push_back(text_of(text));
  EXPECT_EQ(texts, (std::vector<std::string>{"0F#", "0B#", "1F#", "1B#"}));
  std::vector<std::string> waits;
  for (const std::int64_t text : numbers(run["waits"]["what"]["text"])) waits.push_back(text_of(text));
  EXPECT_EQ(waits, (std::vector<std::string>{"", "0RECV_B#", "1RECV_F#", "1F#"}));
  // The actions behind them: B on the other rank at place 1, F on the other rank at place 0, the one before.
  EXPECT_EQ(numbers(run["waits"]["rank"]), (Numbers{0, 1, -1, 0}));
  EXPECT_EQ(numbers(run["waits"]["place"]), (Numbers{0, 0, 0, -1}));
}

std::size_t page_size(int microbatches) {
  const Schedule schedule = generate("1f1b", {.ranks = 4, .microbatches = microbatches}).value();
  const FinishedRun run{
      lower(schedule, {}).value(),
      cost_table({{forward, -1, 10}, {backward, -1, 20}, {send_forward, -1, 3}, {send_backward, -1, 4}})};
  const RunMetrics metrics = run.metrics();
  std::ostringstream out;
  write_report(out, std::vector<ReportEntry>{{"a", run.timed_run(), metrics}}, {.title = "t"});
  return out.str().size();
}

TEST(Report, HoldsWhatRepeatsOnce) { EXPECT_LT(page_size(2048), page_size(64) + 4096); }

TEST(Report, TextCannotBreakOutOfItsPlace) {
  const std::string page = report("</script><b>", "<i>&");
  EXPECT_EQ(data_of(page)["runs"][0]["name"], "</script><b>");
  EXPECT_EQ(page.find("<i>&"), std::string::npos);
  EXPECT_NE(page.find("<title>&lt;i>&amp;</title>"), std::string::npos);
}

}  // namespace
}  // namespace ppsim

#include "ppsim/simulator/writers/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

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
      name, run.view(), metrics, 80, {{"deadlock_free", "proved", ReportFact::Tone::good}}};
  std::ostringstream out;
  write_report(out, std::vector{entry, entry}, {.title = title});
  return out.str();
}

/// What the page's script reads.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = report("a", "b");
  for (const char* forbidden : {"http://", "https://", "src=", "href=", "import ", "@import", "url("}) {
    EXPECT_EQ(page.find(forbidden), std::string::npos) << forbidden;
  }
}

TEST(Report, LaysAMeasuredRunOverTheSimulatedOne) {
  const FinishedRun run = reported_step();
  RunView measured = run.view();
  measured.measured = true;
  const RunMetrics metrics = measure(measured);
  EXPECT_TRUE(metrics.critical_path.empty());
  EXPECT_EQ(metrics.ranks[RankId(0)].bubble, run.metrics().ranks[RankId(0)].bubble);
  std::ostringstream out;
  write_report(out,
               std::vector<ReportEntry>{{"measured", measured, metrics}, {"simulated", run.view(), metrics}},
               {.title = "t", .hint = "Measured <above>.", .overlay = true});
  EXPECT_NE(out.str().find("Measured &lt;above>."), std::string::npos);
  const nlohmann::json data = data_of(out.str());
  EXPECT_EQ(data["overlay"], true);
  EXPECT_EQ(data["runs"][0]["transfers"], data["runs"][1]["transfers"]);
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
  EXPECT_EQ(run["transfers"][0], (nlohmann::json{10, 13, 0, 1, "0SEND_F0"}));
  EXPECT_EQ(run["critical"].back(), (nlohmann::json{47, 67, 0, "0B0", "data"}));
  EXPECT_EQ(run["memoryKinds"].size(), 1U);
  EXPECT_EQ(run["facts"][0]["tone"], 1);
}

TEST(Report, SaysWhoseWorkIsAnother) {
  const FinishedRun run = reported_step();
  const RunMetrics metrics = run.metrics();
  std::vector<ReportEntry> entries(2, {"a", run.view(), metrics});
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

TEST(Report, CellsSayWhatTheyWaitedFor) {
  const nlohmann::json data = data_of(report("1f1b", "title"));
  const auto forward_kind = static_cast<int>(OpKind::forward);
  EXPECT_EQ(data["runs"][0]["ranks"][1]["cells"][0],
            (nlohmann::json{13, 23, "1F0", "1RECV_F0", forward_kind, 0, 0}));
}

TEST(Report, TextCannotBreakOutOfItsPlace) {
  const std::string page = report("</script><b>", "<i>&");
  EXPECT_EQ(data_of(page)["runs"][0]["name"], "</script><b>");
  EXPECT_EQ(page.find("<i>&"), std::string::npos);
  EXPECT_NE(page.find("<title>&lt;i>&amp;</title>"), std::string::npos);
}

}  // namespace
}  // namespace ppsim

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ppsim/planner/files.hpp"
#include "ppsim/planner/validate.hpp"

namespace ppsim {
namespace {

/// Of pairs whose measurements differ, those that the simulation ranks alike less those that it does not, as
/// a share.
struct Ranking {
  int alike = 0;
  int other = 0;
  [[nodiscard]] double tau() const { return double(alike - other) / double(alike + other); }
};

Ranking ranking_of(const std::vector<Comparison>& group) {
  Ranking ranking;
  for (std::size_t a = 0; a < group.size(); ++a) {
    for (std::size_t b = a + 1; b < group.size(); ++b) {
      const double measured = group[a].measured - group[b].measured;
      const double simulated = *group[a].simulated - *group[b].simulated;
      if (measured == 0) continue;
      ++(measured * simulated > 0 ? ranking.alike : ranking.other);
    }
  }
  return ranking;
}

/// Parallelisms of one model on the same GPUs with the same batch.
TEST(PlanRanking, ConfigurationsRankAsTheyWereMeasured) {
  const std::string file =
      std::string(PPSIM_TESTS_DIR) + "/../studies/accuracy/data/vtrain_multi_node_a100.csv";
  const auto text = read_text_file(file);
  ASSERT_TRUE(text) << text.error();
  auto rows = read_measurements(*text, file);
  ASSERT_TRUE(rows) << rows.error();
  const Validation validation = validate(*std::move(rows));
  std::map<std::string, std::vector<Comparison>> groups;
  for (const Comparison& one : validation.steps.comparisons) {
    const auto* run = std::get_if<RunDescription>(&validation.rows[one.row].run);
    if (run == nullptr || !one.simulated) continue;
    groups[run->model.name + " on " + std::to_string(run->gpus) + ", batch " +
           std::to_string(run->global_batch_size) + ", " + std::to_string(run->model.layers)]
        .push_back(one);
  }
  std::vector<double> taus;
  for (const auto& [name, group] : groups) {
    if (group.size() > 2) taus.push_back(ranking_of(group).tau());
  }
  ASSERT_EQ(taus.size(), 4U);
  std::ranges::sort(taus);
  // The runs of 39.1B hold some that are seconds slower than others that do the same; no model should fit
  // them.
  EXPECT_GE(taus[0], 0.45);
  EXPECT_GE(taus[1], 0.75);
  EXPECT_GE(taus[2], 0.8);
  EXPECT_GE(taus[3], 0.9);
}

}  // namespace
}  // namespace ppsim

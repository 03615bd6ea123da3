#include "ppsim/workload/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ppsim/core/io/json.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/workload/analytic.hpp"
#include "ppsim/workload/communication.hpp"

namespace ppsim {
namespace {

Calibration example() {
  Calibration calibration;
  calibration.factors = {{OpKind::forward, 1.25}, {OpKind::backward, 0.5}};
  calibration.collectives = {{MeasuredOperation::all_reduce, {8, 8}, {{1'000, 10'000}, {1'000'000, 100'000}}},
                             {MeasuredOperation::send_receive, {2, 1}, {{1'000'000, 50'000}}}};
  calibration.constants.emplace();
  calibration.constants->kernel_time = 5e-6;
  calibration.sources = {"a.csv"};
  return calibration;
}

Workload job() {
  Workload work{.model = model_from_name("llama3-8b").value(),
                .cluster = cluster_from_name("dgx-h100", 2).value()};
  work.parallelism = {.tensor = 4, .pipeline = 4, .global_batch_size = 8};
  return work;
}

Pipeline chain_of(int ranks) { return make_chain(ranks, ranks, 8).value(); }

TEST(CalibrationFile, ReadsWhatItWrites) {
  const Calibration written = example();
  EXPECT_EQ(calibration_from_json(workload::to_json(written), "c.json").value(), written);
}

TEST(CalibrationFile, ItsHashIsThatOfWhatItChanges) {
  Calibration other = example();
  other.sources = {"b.csv"};
  EXPECT_EQ(calibration_hash(other), calibration_hash(example()));
  other.factors[OpKind::forward] = 1.2500001;
  EXPECT_NE(calibration_hash(other), calibration_hash(example()));
}

TEST(CalibrationFile, NamesThePlaceOfWhatIsWrong) {
  const auto message = [](const std::string& body) {
    const auto read =
        calibration_from_json(R"({"format": "ppsim-calibration", "version": 1)" + body + "}", "c.json");
    return read ? std::string("accepted") : to_string(read.error());
  };
  EXPECT_EQ(message(""), "accepted");
  const auto has = [&](const std::string& body, const std::string& words) {
    EXPECT_NE(message(body).find(words), std::string::npos) << message(body);
  };
  has(R"(, "factors": [{"kind": "F", "factor": 11}])", "c.json:1:");
  has(R"(, "factors": [{"kind": "F", "factor": 1}, {"kind": "F", "factor": 1}])", "a kind given twice");
  has(R"(, "factors": [{"kind": "X", "factor": 1}])", "\"X\"");
  has(R"(, "colectives": [])", "colectives");
  const std::string times = R"("times": [{"bytes": 2, "ns": 1}, {"bytes": 2, "ns": 1}])";
  has(R"(, "collectives": [{"operation": "all_reduce", "gpus": 2, "gpus_per_node": 2, )" + times + "}]",
      "sizes do not ascend");
  has(R"(, "collectives": [{"operation": "all_reduce", "gpus": 2, "gpus_per_node": 4, "times": [{"bytes": 1, "ns": 1}]}])",
      "a node has more GPUs than the group");
  EXPECT_FALSE(calibration_from_json("", "c.json"));
  EXPECT_FALSE(calibration_from_json(R"({"format": "ppsim-tables", "version": 1})", "c.json"));
}

TEST(CalibrationFactor, IsThatOfTheNextRelativeOrOfTheParts) {
  const CostTable model = unit_cost_table({.F = 2, .B = 4, .I = 3, .W = 1, .FB = 5});
  Calibration calibration;
  const auto factor = [&](OpKind kind) { return calibration.factor(model, {kind, 0, 1}); };
  calibration.factors = {{OpKind::forward, 2}, {OpKind::backward, 5}};
  EXPECT_EQ(factor(OpKind::backward_input), 5);
  EXPECT_EQ(factor(OpKind::backward_weight), 5);
  EXPECT_EQ(factor(OpKind::recompute), 2);
  EXPECT_EQ(factor(OpKind::overlap), 4) << "(2 x 2 + 4 x 5) / 6";
  EXPECT_EQ(factor(OpKind::send_forward), 1);
  calibration.factors = {{OpKind::forward, 0.1}, {OpKind::backward, 5}};
  EXPECT_EQ(factor(OpKind::overlap), 4) << "4 x 5 of B are more than 5 x (2 x 0.1 + 4 x 5) / 6";
  calibration.factors = {{OpKind::backward_input, 3}};
  EXPECT_EQ(factor(OpKind::backward), 2.5) << "(3 x 3 + 1 x 1) / 4";
  EXPECT_EQ(factor(OpKind::overlap), 2) << "(2 x 1 + 4 x 2.5) / 6";
  EXPECT_EQ(calibration.factor({}, {OpKind::backward, 0}), 1) << "of nothing";
}

TEST(MeasuredSeconds, InterpolatesInLogarithms) {
  const auto measured = example().collectives;
  const auto seconds = [&](const GpuGroup& group, double bytes) {
    return workload::measured_seconds(measured, MeasuredOperation::all_reduce, group, bytes);
  };
  EXPECT_DOUBLE_EQ(*seconds({8, 8}, 1'000), 10e-6);
  EXPECT_DOUBLE_EQ(*seconds({8, 8}, 1'000'000), 100e-6);
  // Half of the way from 10^3 to 10^6 bytes is half of the way from 10 to 100 us.
  EXPECT_NEAR(*seconds({8, 8}, std::sqrt(1e9)), std::sqrt(1e3) * 1e-6, 1e-12);
  EXPECT_DOUBLE_EQ(*seconds({8, 8}, 1), 10e-6) << "latency";
  EXPECT_DOUBLE_EQ(*seconds({8, 8}, 4e6), 400e-6) << "bandwidth";
  // Of 2 members each sends 1/2 of what it has, of 8 members 7/8.
  EXPECT_NEAR(*seconds({2, 2}, 1'000'000), 100e-6 * (0.5 / 0.875), 1e-12);
  EXPECT_FALSE(seconds({16, 8}, 1'000)) << "over the network nothing was measured";
}

TEST(MeasuredSeconds, TakesTheNearestGroupOfTheSameReach) {
  const std::vector<MeasuredCollective> measured = {
      {MeasuredOperation::all_gather, {16, 8}, {{1'000, 16'000}}},
      {MeasuredOperation::all_gather, {64, 8}, {{1'000, 64'000}}},
      {MeasuredOperation::all_gather, {4, 4}, {{1'000, 4'000}}},
      {MeasuredOperation::all_gather, {4, 1}, {{1'000, 1'000}}}};
  const auto nanoseconds = [&](const GpuGroup& group) {
    const double share = 1.0 * (group.gpus - 1) / group.gpus;
    return *workload::measured_seconds(measured, MeasuredOperation::all_gather, group, 1'000) / share * 1e9;
  };
  EXPECT_NEAR(nanoseconds({24, 8}), 16'000 * 16.0 / 15, 1e-6);
  EXPECT_NEAR(nanoseconds({63, 8}), 64'000 * 64.0 / 63, 1e-6);
  EXPECT_NEAR(nanoseconds({8, 8}), 4'000 * 4.0 / 3, 1e-6);
  EXPECT_NEAR(nanoseconds({16, 1}), 1'000 * 4.0 / 3, 1e-6);
}

TEST(CalibratedWorkload, CostsAreTimesTheirFactors) {
  const Workload plain = job();
  Workload changed = plain;
  changed.calibration.factors = {{OpKind::forward, 1.5}, {OpKind::optimizer, 2}};
  const AnalyticCosts before = analytic_costs(plain, chain_of(4)).value();
  const AnalyticCosts after = analytic_costs(changed, chain_of(4)).value();
  for (const auto& [key, cost] : before.tables.costs.entries()) {
    const double factor = key.kind == OpKind::forward || key.kind == OpKind::recompute ? 1.5
                          : key.kind == OpKind::optimizer                              ? 2
                                                                                       : 1;
    if (key.kind == OpKind::overlap) continue;
    EXPECT_NEAR(static_cast<double>(after.tables.costs(key)), factor * static_cast<double>(cost), 1) << key;
  }
  EXPECT_EQ(after.ends[RankId(0)].reduction, before.ends[RankId(0)].reduction);
  EXPECT_EQ(after.ends[RankId(0)].update, 2 * before.ends[RankId(0)].update);
  EXPECT_EQ(after.tables.sizes, before.tables.sizes);
}

/// Or a schedule would be faster or slower for the kinds of actions that it cuts the same work into.
TEST(CalibratedWorkload, DenseLayersTakeTheSameHoweverTheyAreCut) {
  Workload work = job();
  for (const std::map<OpKind, double>& factors :
       {std::map<OpKind, double>{{OpKind::forward, 1.1}, {OpKind::backward, 1.2}},
        {{OpKind::backward_input, 1.3}, {OpKind::backward_weight, 0.9}},
        {{OpKind::backward_weight, 1.5}}}) {
    work.calibration.factors = factors;
    const CostTable costs = analytic_costs(work, chain_of(4)).value().tables.costs;
    const auto of = [&](OpKind kind, int peer = -1) { return static_cast<double>(costs({kind, 2, peer})); };
    EXPECT_NEAR(of(OpKind::backward), of(OpKind::backward_input) + of(OpKind::backward_weight), 2);
    EXPECT_NEAR(of(OpKind::overlap, 2), of(OpKind::forward) + of(OpKind::backward), 2);
  }
}

TEST(CalibratedWorkload, MessagesTakeWhatWasMeasured) {
  Workload work = job();
  work.calibration.collectives = {{MeasuredOperation::send_receive, {16, 8}, {{1, 7'000'000}}},
                                  {MeasuredOperation::send_receive, {2, 2}, {{1, 3'000'000}}}};
  const CostTable costs = analytic_costs(work, chain_of(4)).value().tables.costs;
  const Bytes bytes =
      analytic_costs(work, chain_of(4)).value().tables.sizes({TensorKind::boundary_output, 0});
  // Ranks 0 and 1 share a node of 8 with TP 4, ranks 1 and 2 do not.
  EXPECT_NEAR(static_cast<double>(costs({OpKind::send_forward, 0, 1})), 3e6 * static_cast<double>(bytes), 2);
  EXPECT_NEAR(static_cast<double>(costs({OpKind::send_forward, 1, 2})), 7e6 * static_cast<double>(bytes), 2);
}

TEST(CalibratedWorkload, CommunicationIsTheModelsUntilItIsMeasured) {
  Workload work = job();
  const auto seconds = [&](const GpuGroup& group) {
    return workload::communication_seconds(work, MeasuredOperation::all_reduce, group, 1e8);
  };
  const double within = seconds({8, 8});
  const double across = seconds({16, 8});
  EXPECT_LT(within, across);
  work.calibration.collectives = {{MeasuredOperation::all_reduce, {8, 8}, {{100'000'000, 123'000}}}};
  EXPECT_DOUBLE_EQ(seconds({8, 8}), 123e-6);
  EXPECT_EQ(seconds({16, 8}), across);
}

TEST(CalibratedWorkload, ConstantsAreThoseOfTheFile) {
  const Workload work = calibrated(job(), example());
  EXPECT_EQ(work.fitted.kernel_time, 5e-6);
  EXPECT_EQ(work.calibration, example());
}

}  // namespace
}  // namespace ppsim

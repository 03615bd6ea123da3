#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/planner/plan.hpp"

namespace ppsim {
namespace {

template <class T>
T one_of(const std::vector<T>& values) {
  return *rc::gen::elementOf(values);
}

/// Factors of some kinds of actions, as measured costs have them.
Calibration any_calibration() {
  Calibration calibration;
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_input,
                            OpKind::backward_weight, OpKind::recompute, OpKind::overlap}) {
    if (*rc::gen::arbitrary<bool>())
      calibration.factors[kind] = one_of<double>({0.5, 0.83, 0.97, 1.02, 1.3, 2.5});
  }
  return calibration;
}

/// A model of a few layers, on a few GPUs whose memory may be too small for some plans or for all.
PlanRequest any_problem(const Calibration& calibration) {
  PlanRequest request;
  const bool mixture = *rc::gen::inRange(0, 4) == 0;
  request.work.model =
      *model_from_name(mixture ? "mixtral-8x7b" : one_of<std::string>({"llama3-8b", "gemma-2b"}));
  request.work.model.layers = *rc::gen::inRange(2, 7);
  request.work.model.sequence = one_of<std::int64_t>({512, 2048});
  request.work.cluster = *cluster_from_name("dgx-h100", 1);
  request.work.cluster.node.gpus = one_of<int>({2, 4, 6});
  request.work.cluster.gpu.memory_bytes = Bytes{*rc::gen::inRange(8, 60)} * 1'000'000'000;
  request.work.stack =
      *stack_from_name(one_of<std::string>({"megatron-core", "torchtitan", "deepspeed", "megatron-bridge"}));
  request.work.calibration = calibration;
  request.work.whole_step = *rc::gen::arbitrary<bool>();
  request.work.parallelism.global_batch_size = one_of<int>({4, 6, 8});
  request.fixed = {{"microbatch-size", {"1", "2"}}, {"cp", {"1"}}};
  // Few schedules at a time, or simulating all of them takes too long.
  std::vector<std::string> names = {"gpipe",      "1f1b",
                                    "eager-1f1b", "interleaved-1f1b",
                                    "kimi-k2",    "looped-bfs",
                                    "zb-h1",      "zb-h2",
                                    "zb-v",       "group-interleaved",
                                    "v-half",     "v-min",
                                    "1f1b-v",     "dualpipe",
                                    "dualpipe-v", "interleaved-zb",
                                    "hanayo",     "chimera",
                                    "bitpipe",    "bpipe",
                                    "vocab-1",    "vocab-2"};
  for (int i = 0; i < 5; ++i) request.fixed["schedule"].push_back(one_of(names));
  std::ranges::sort(request.fixed["schedule"]);
  request.fixed["schedule"].erase(std::ranges::unique(request.fixed["schedule"]).begin(),
                                  request.fixed["schedule"].end());
  if (*rc::gen::arbitrary<bool>())
    request.fixed["recompute"] = {one_of<std::string>({"none", "selective", "full"})};
  request.top = *rc::gen::inRange(1, 12);
  request.objective = one_of<PlanObjective>(
      {PlanObjective::time, PlanObjective::time, PlanObjective::tokens_per_dollar, PlanObjective::memory});
  request.front = one_of<double>({1, 1.2});
  return request;
}

using Figures = std::vector<std::pair<Nanoseconds, Bytes>>;

Figures figures_of(const std::vector<PlanRow>& rows, PlanObjective objective) {
  Figures figures;
  for (const PlanRow& row : rows) {
    const bool memory = objective == PlanObjective::memory;
    figures.emplace_back(memory ? 0 : row.step, memory ? row.peak_bytes : 0);
  }
  return figures;
}

void check_problem(const Calibration& calibration) {
  PlanRequest request = any_problem(calibration);
  const auto pruned = planner::plan(request);
  request.prunes = false;
  const auto all = planner::plan(request);
  RC_ASSERT(pruned.has_value() == all.has_value());
  if (!pruned) return;
  RC_ASSERT(figures_of(pruned->best, request.objective) == figures_of(all->best, request.objective));
  RC_ASSERT(pruned->tightest.has_value() == all->tightest.has_value());
  if (!pruned->tightest) return;  // or no schedule accepts any of the parallelisms
  RC_ASSERT(pruned->best.empty());
  RC_ASSERT(pruned->tightest->peak_bytes == all->tightest->peak_bytes);
  RC_ASSERT(pruned->tightest->spare_bytes() < 0);
}

RC_GTEST_PROP(PlanProperty, PruningKeepsTheBest, ()) { check_problem({}); }

RC_GTEST_PROP(PlanProperty, PruningKeepsTheBestUnderACalibration, ()) { check_problem(any_calibration()); }

}  // namespace
}  // namespace ppsim

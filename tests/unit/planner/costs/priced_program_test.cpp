#include "ppsim/planner/costs/priced_program.hpp"

#include <gtest/gtest.h>

#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace ppsim {
namespace {

Workload workload() {
  Workload work;
  work.model = model_from_name("llama3-8b").value();
  work.cluster = cluster_from_name("dgx-h100", 4).value();
  work.parallelism = {.tensor = 4, .pipeline = 4, .data = 2, .global_batch_size = 32};
  return work;
}

Program lowered(const Workload& work) {
  const ScheduleParameters parameters{.ranks = 4, .microbatches = 16};
  const Ir ir = ir_from_name("1f1b", parameters).value();
  const CostBinding costs = bind_cost_source(work, pipeline_of(ir)).value();
  return to_program(ir, {}, &costs.tables.costs).value();
}

TEST(PricedProgram, TakesAsLongAsItsEvaluation) {
  Workload work = workload();
  const Program program = lowered(work);
  PricedProgram priced = PricedProgram::make(program).value();
  for (const bool whole : {true, false}) {
    work.whole_step = whole;
    work.cluster.gpu.memory_tbps *= 0.9;
    work.fitted.kernel_time *= 2;
    CostBinding costs = bind_cost_source(work, program.pipeline()).value();
    EXPECT_EQ(priced.step(work).value(), evaluate("1f1b", program, std::move(costs)).value().step());
  }
}

TEST(PricedProgram, AWorkloadOfAnotherPipelineIsRefused) {
  Workload work = workload();
  PricedProgram priced = PricedProgram::make(lowered(work)).value();
  work.parallelism.pipeline = 2;
  work.parallelism.data = 4;
  EXPECT_FALSE(priced.step(work));
}

}  // namespace
}  // namespace ppsim

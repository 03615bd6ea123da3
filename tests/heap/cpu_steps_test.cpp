// How often the executor of threads asks the heap for memory: a little for each action, and no more from step
// to step. It need not be never: an action takes longer there than a request.

#include <gtest/gtest.h>

#include "heap/heap_requests.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {
namespace {

Program training(int microbatches) {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = true;
  return lower(generate("zb-h1", {.ranks = 2, .microbatches = microbatches}).value(), options).value();
}

std::uint64_t requests_of_run(const Program& program, int steps) {
  RunOptions options;
  options.unverified = true;
  options.steps = steps;
  options.kept_traces = 1;
  const std::uint64_t before = heap_requests();
  EXPECT_TRUE(execute(program, NullModel(), options));
  return heap_requests() - before;
}

TEST(HeapOnACpu, IsAskedAsOftenInEveryStepAndLessThanTwiceForAnAction) {
  const auto step_of = [](const Program& program) {
    const std::uint64_t ten = requests_of_run(program, 10);
    const std::uint64_t twenty = requests_of_run(program, 20);
    EXPECT_EQ(requests_of_run(program, 30) - twenty, twenty - ten);
    return (twenty - ten) / 10;
  };
  const Program few = training(4);
  const Program many = training(16);
  EXPECT_LT(step_of(many) - step_of(few), 2 * (many.all_actions().size() - few.all_actions().size()));
}

}  // namespace
}  // namespace ppsim::test

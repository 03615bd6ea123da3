#include "ppsim/workload/job.hpp"

#include <gtest/gtest.h>

namespace ppsim {
namespace {

TEST(Jobs, FillTheirClustersAndDivideTheirBatches) {
  for (const TrainingJob& job : job_presets()) {
    const auto model = model_from_name(job.model);
    const auto node = cluster_from_name(job.cluster, job.nodes);
    ASSERT_TRUE(model.has_value() && node.has_value()) << job.name;
    const auto good = check_parallelism(job.parallelism, *model, *node);
    EXPECT_TRUE(good.has_value()) << job.name << ": " << to_string(good.error());
    EXPECT_FALSE(job.source.empty() || job.schedule.empty()) << job.name;
  }
}

TEST(Jobs, AreThoseThatJaxppMeasures) {
  const TrainingJob gpt = job_from_name("jaxpp-gpt3-175b").value();
  EXPECT_EQ(gpt.parallelism.gpus(), 128);
  EXPECT_EQ(gpt.parallelism.microbatches(), 32);
  const TrainingJob llama = job_from_name("jaxpp-llama2-70b").value();
  EXPECT_EQ(llama.parallelism.gpus(), 64);
  EXPECT_EQ(llama.parallelism.microbatches(), 16);
}

TEST(Jobs, AnUnknownOneNamesTheNearest) {
  const auto unknown = job_from_name("jaxpp-gpt3");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message.find("unknown job (did you mean \"jaxpp-gpt3-175b\"?)"), 0U)
      << unknown.error().message;
}

}  // namespace
}  // namespace ppsim

#include "ppsim/workload/stack.hpp"

#include <gtest/gtest.h>

#include <set>

#include "ppsim/workload/constants.hpp"

namespace ppsim {
namespace {

using workload::AttentionKernel;
using workload::ContextExchange;

TEST(Stack, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const SoftwareStack& stack : stack_presets()) {
    EXPECT_TRUE(names.insert(stack.name).second) << stack.name;
    EXPECT_EQ(stack_from_name(stack.name).value(), stack);
  }
}

TEST(Stack, AnUnknownOneNamesThoseThereAre) {
  const auto stack = stack_from_name("megatron-cor");
  ASSERT_FALSE(stack.has_value());
  EXPECT_NE(stack.error().message.find("megatron-core"), std::string::npos) << "did you mean";
  EXPECT_NE(stack.error().place.expected.find("torchtitan"), std::string::npos);
}

/// FlashAttention-3 is the first version that does.
TEST(Stack, OlderFlashAttentionDoesNotMultiplyInFp8) {
  const auto stack = stack_from_json(
      R"({"base": "megatron-core", "attention": "flash-2", "quantised_attention": true})", "stack.json");
  ASSERT_FALSE(stack.has_value());
  EXPECT_EQ(to_string(stack.error()),
            "stack.json:1:40: /attention: older flash attention does not multiply in FP8 (found flash-2 with "
            "quantised_attention, expected flash, or quantised_attention false)");
}

TEST(Stack, AFileSaysWhatDiffers) {
  const auto stack = stack_from_json(
      R"({"base": "megatron-core", "name": "ours", "attention": "unfused", "gradient_bytes": 2,
          "moment_bytes": 2, "split_experts": true, "graphed_experts": false, "overlap_tensor": false, "context": "all-to-all",
          "overlap_experts": true, "fused_experts": true, "quantised_gates": true, "weights": "primary",
          "transfer_channels": 2, "inputs": "pageable", "compiled": true, "reruns_layers": false,
          "quantised_attention": true,
          "selective": "up-projections"})",
      "stack.json");
  ASSERT_TRUE(stack.has_value());
  SoftwareStack expected = stack_from_name("megatron-core").value();
  expected.name = "ours";
  expected.attention = AttentionKernel::unfused;
  expected.gradient_bytes = 2;
  expected.moment_bytes = 2;
  expected.split_experts = true;
  expected.graphed_experts = false;
  expected.overlap_tensor = false;
  expected.context = ContextExchange::all_to_all;
  expected.overlap_experts = true;
  expected.transfer_channels = 2;
  expected.fused_experts = true;
  expected.quantised_gates = true;
  expected.weights = workload::QuantisedWeights::primary;
  expected.selective = workload::SelectiveRecompute::up_projections;
  expected.compiled = true;
  expected.reruns_layers = false;
  expected.quantised_attention = true;
  expected.inputs = workload::InputCopies::pageable;
  EXPECT_EQ(*stack, expected);
}

TEST(Stack, AFileWithAMistakeSaysWhere) {
  const auto unknown = stack_from_json("{\n\"base\": \"megatron-core\",\n\"overlap\": true}", "stack.json");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::bad_file);
  EXPECT_EQ(unknown.error().place.row, 3);
  const auto base = stack_from_json(R"({"base": "megatron"})", "stack.json");
  ASSERT_FALSE(base.has_value());
  EXPECT_EQ(base.error().place.file, "stack.json");
  EXPECT_NE(base.error().place.expected.find("megatron-core"), std::string::npos);
}

/// More would fit anything.
TEST(Constants, AtMostFourAreFittedToSteps) {
  int fitted = 0;
  for (const Constant& constant : workload::constants()) {
    EXPECT_FALSE(constant.source.empty()) << constant.name;
    fitted += constant.fitted ? 1 : 0;
  }
  EXPECT_LE(fitted, 4);
}

}  // namespace
}  // namespace ppsim

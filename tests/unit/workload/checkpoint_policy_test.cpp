#include <gtest/gtest.h>

#include <algorithm>

#include "support/llama.hpp"
#include "support/programs.hpp"

// The policies of jax.checkpoint under their names and MaxText's: around each layer, so that its input is
// kept, and what a policy names.

namespace ppsim {
namespace {

constexpr std::int64_t kLayers = 20;  // of a stage
constexpr std::int64_t kPolicyTokens = 8192;

Tables tables_of(const Workload& workload) {
  return analytic_costs(workload, test::chain(4, 4, 64)).value().tables;
}

Workload keeping(const CheckpointPolicy& policy) {
  Workload workload = test::llama();
  workload.stack.checkpoints = policy;
  workload.parallelism.recompute = Recompute::selective;
  return workload;
}

Bytes saved(const Tables& tables) { return tables.sizes({TensorKind::lent_activations, 1}); }
Nanoseconds backward(const Tables& tables) { return tables.costs({OpKind::backward, 1}); }

bool keeps_all_of(const CheckpointPolicy& more, const CheckpointPolicy& less) {
  return more.projections >= less.projections && more.context >= less.context && more.output >= less.output &&
         more.gates >= less.gates;
}

TEST(CheckpointPolicy, WhoKeepsMoreTakesMoreMemoryAndLessTime) {
  for (const CheckpointPolicy& less : checkpoint_policies()) {
    for (const CheckpointPolicy& more : checkpoint_policies()) {
      if (!keeps_all_of(more, less)) continue;
      const Tables a = tables_of(keeping(less));
      const Tables b = tables_of(keeping(more));
      EXPECT_LE(saved(a), saved(b)) << less.name << ' ' << more.name;
      EXPECT_GE(backward(a), backward(b)) << less.name << ' ' << more.name;
      if (keeps_all_of(less, more)) continue;
      EXPECT_LT(saved(a), saved(b)) << less.name << ' ' << more.name;
      EXPECT_GT(backward(a), backward(b)) << less.name << ' ' << more.name;
    }
  }
}

/// Llama 3 70B in bf16 with sequence parallelism over 8: hidden 8192, 64 + 2 x 8 heads of 128, 28672
/// channels.
TEST(CheckpointPolicy, KeepsItsTensorsAndTheInputOfEachLayer) {
  const auto bytes = [](const char* name) {
    return saved(tables_of(keeping(checkpoint_policy_from_name(name).value())));
  };
  constexpr std::int64_t kShare = kLayers * kPolicyTokens * 2 / 8;  // of a channel
  EXPECT_EQ(bytes("nothing_saveable"), kShare * 8192);
  EXPECT_EQ(bytes("save_out_proj"), kShare * (8192 + 8192));
  EXPECT_EQ(bytes("save_qkv_proj"), kShare * (8192 + 80 * 128));
  EXPECT_EQ(bytes("save_dot_except_mlp"), kShare * (2 * 8192 + 80 * 128));
  EXPECT_EQ(bytes("minimal"), kShare * (2 * 8192 + 80 * 128 + 2 * 28672));
  // The output of attention, and two bytes twice for the sum of each row of scores.
  EXPECT_EQ(bytes("minimal_with_context") - bytes("minimal"), kShare * (64 * 128 + 2 * 64));
}

/// All products kept is what element-wise recompute keeps, and takes as long where B does both halves.
TEST(CheckpointPolicy, AllProductsAreElementwiseRecompute) {
  Workload elementwise = test::llama();
  elementwise.parallelism.recompute = Recompute::selective;
  const Tables expected = tables_of(elementwise);
  const Tables found = tables_of(keeping(checkpoint_policy_from_name("minimal_with_context").value()));
  EXPECT_EQ(saved(found), saved(expected));
  EXPECT_NEAR(static_cast<double>(backward(found)), static_cast<double>(backward(expected)), 2);
}

/// All but the last product of each layer, and what leads to it, is made again.
TEST(CheckpointPolicy, NothingSaveableRepeatsMostOfTheForward) {
  const Tables none = tables_of(test::llama());
  Workload workload = keeping(checkpoint_policy_from_name("nothing_saveable").value());
  workload.stack.reruns_layers = false;
  const Tables all = tables_of(workload);
  const Nanoseconds more = backward(all) - backward(none);
  const Nanoseconds forward = none.costs({OpKind::forward, 1});
  EXPECT_LT(more, forward);
  EXPECT_GT(more, forward * 3 / 5);
  EXPECT_EQ(all.costs({OpKind::forward, 1}), forward);
  // One layer at a time.
  const SizeClass workspace{TensorKind::workspace, 1, -1, -1, OpKind::backward};
  const Bytes layer = (saved(none) - saved(all)) / kLayers;
  EXPECT_NEAR(static_cast<double>(all.sizes(workspace) - none.sizes(workspace)), static_cast<double>(layer),
              1);
}

/// What a framework of PyTorch runs again is the whole forward of layers, as full recompute does it. Head and
/// loss, on stage 3, are in no layer.
TEST(CheckpointPolicy, LayersRunAgainToTheirEndInPytorch) {
  const Tables none = tables_of(test::llama());
  const Tables layers = tables_of(keeping(checkpoint_policy_from_name("nothing_saveable").value()));
  Workload whole = test::llama();
  whole.parallelism.recompute = Recompute::full;
  const Tables full = tables_of(whole);
  const Nanoseconds forward = none.costs({OpKind::forward, 1});
  EXPECT_NEAR(static_cast<double>(backward(layers) - backward(none)), static_cast<double>(forward), 2);
  EXPECT_NEAR(static_cast<double>(backward(layers)), static_cast<double>(backward(full)), 2);
  EXPECT_LT(layers.costs({OpKind::backward, 3}), full.costs({OpKind::backward, 3}));
  // Whoever keeps something stops where the backward has what it needs.
  Workload some = keeping(checkpoint_policy_from_name("save_out_proj").value());
  const Tables kept = tables_of(some);
  some.stack.reruns_layers = false;
  EXPECT_EQ(backward(tables_of(some)), backward(kept));
}

TEST(CheckpointPolicy, AreForDenseDecodersWithFlashAttention) {
  const CheckpointPolicy minimal = checkpoint_policy_from_name("minimal").value();
  Workload unfused = keeping(minimal);
  unfused.stack.attention = workload::AttentionKernel::unfused;
  EXPECT_FALSE(analytic_costs(unfused, test::chain(4, 4, 64)).has_value());
  Workload mixture = keeping(minimal);
  mixture.model = model_from_name("mixtral-8x7b").value();
  EXPECT_NE(analytic_costs(mixture, test::chain(4, 4, 64)).error().message.find("dense decoders"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim

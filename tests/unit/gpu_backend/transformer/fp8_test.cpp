// Numbers of eight bits, what rounds matrices to them, and the transformer whose products are made of them.

#include "transformer/kernels/fp8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/gradient_distance.hpp"
#include "support/host_gpu_model.hpp"
#include "support/host_kernels.hpp"
#include "support/transformer_run.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using cuda::Bf16;
using cuda::Fp8;
using cuda::from_fp8;
using cuda::to_fp8;

constexpr int kCodes = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a code by the formats' definition: sign, exponent, mantissa.
double value_of(int code, Fp8 type) {
  const int mantissa_bits = type == Fp8::e4m3 ? 3 : 2;
  const int bias = type == Fp8::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7F) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  if (type == Fp8::e4m3 && (code & 0x7F) == 0x7F) return std::nan("");
  if (type == Fp8::e5m2 && exponent == 31) return mantissa == 0 ? HUGE_VAL : std::nan("");
  const double size = exponent == 0
                          ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                          : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return code >= 0x80 ? -size : size;
}

class Fp8Types : public testing::TestWithParam<Fp8> {};
INSTANTIATE_TEST_SUITE_P(Fp8, Fp8Types, testing::Values(Fp8::e4m3, Fp8::e5m2));

TEST_P(Fp8Types, EveryCodeHasItsValueAndIsFoundAgain) {
  for (int code = 0; code < kCodes; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const double expected = value_of(code, GetParam());
    const float found = from_fp8(byte, GetParam());
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << code;
      EXPECT_TRUE(std::isnan(from_fp8(to_fp8(found, GetParam()), GetParam()))) << code;
    } else if (std::isfinite(found)) {
      EXPECT_EQ(found, code >= 0x80 ? -std::fabs(expected) : expected) << code;
      EXPECT_EQ(to_fp8(found, GetParam()), byte) << code;
    } else {
      EXPECT_EQ(from_fp8(to_fp8(found, GetParam()), GetParam()), std::copysign(57344.0F, found));
    }
  }
}

TEST_P(Fp8Types, RoundsToNearestAndTiesToEven) {
  const int largest = GetParam() == Fp8::e4m3 ? 0x7E : 0x7B;
  for (int code = 0; code < largest; ++code) {
    const auto low = static_cast<float>(value_of(code, GetParam()));
    const auto high = static_cast<float>(value_of(code + 1, GetParam()));
    const float middle = (low + high) / 2;
    EXPECT_EQ(to_fp8(middle, GetParam()), code % 2 == 0 ? code : code + 1) << code;
    EXPECT_EQ(to_fp8(std::nextafter(middle, 0.0F), GetParam()), code);
    EXPECT_EQ(to_fp8(std::nextafter(middle, kInfinity), GetParam()), code + 1);
    EXPECT_EQ(to_fp8(-middle, GetParam()), 0x80 | (code % 2 == 0 ? code : code + 1));
  }
}

TEST_P(Fp8Types, SaturatesAndKeepsNaN) {
  const float largest = GetParam() == Fp8::e4m3 ? 448 : 57344;
  for (const float large : {largest, 1.5F * largest, std::numeric_limits<float>::max(), kInfinity}) {
    EXPECT_EQ(from_fp8(to_fp8(large, GetParam()), GetParam()), largest);
    EXPECT_EQ(from_fp8(to_fp8(-large, GetParam()), GetParam()), -largest);
  }
  EXPECT_EQ(to_fp8(std::numeric_limits<float>::denorm_min(), GetParam()), 0);
  EXPECT_TRUE(std::isnan(from_fp8(to_fp8(std::nanf(""), GetParam()), GetParam())));
}

#if __has_include(<cuda_fp8.h>)
/// The conversion that the kernel uses, as its header does it on a processor.
std::uint8_t by_cuda(float value, Fp8 type) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, type == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

TEST_P(Fp8Types, AreConvertedAsByCuda) {
  std::mt19937 bits(7);
  const auto compare = [](std::uint32_t pattern) {
    float value = 0;
    std::memcpy(&value, &pattern, sizeof value);
    return to_fp8(value, GetParam()) == by_cuda(value, GetParam());
  };
  for (std::uint32_t upper = 0; upper < 1U << 16; ++upper) ASSERT_TRUE(compare(upper << 16)) << upper;
  for (int i = 0; i < 1 << 20; ++i) {
    const auto pattern = static_cast<std::uint32_t>(bits());
    ASSERT_TRUE(compare(pattern)) << pattern;
    // Where the types have numbers: exponents from -18 to 17.
    ASSERT_TRUE(compare((pattern & 0x807fffffU) | ((109 + i % 36U) << 23))) << pattern;
  }
}
#endif

TEST(Fp8Scale, BringsTheLargestNumberToTheLargestOfTheType) {
  EXPECT_EQ(cuda::fp8_scale(448, Fp8::e4m3), 1);
  EXPECT_EQ(cuda::fp8_scale(3.5F, Fp8::e4m3), 0x1p-7F);
  EXPECT_EQ(cuda::fp8_scale(57344 * 8, Fp8::e5m2), 8);
  for (const float none : {0.0F, 1e-38F, kInfinity}) EXPECT_EQ(cuda::fp8_scale(none, Fp8::e5m2), 1) << none;
}

/// A matrix as the kernels quantise it: its scale, and its codes.
std::pair<float, std::vector<std::uint8_t>> quantized(const std::vector<float>& numbers, int rows, Fp8 type,
                                                      bool transpose) {
  std::vector<Bf16> values;
  for (const float number : numbers) values.push_back(cuda::to_bf16(number));
  const cuda::KernelTable kernels = host_kernels(immediately());
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<float> partial(cuda::kPartials);
  float scale = 0;
  std::vector<std::uint8_t> codes(values.size());
  kernels.find_scale(nullptr, {count, values.data(), type, partial.data(), &scale});
  kernels.quantize(nullptr, {rows, count / rows, values.data(), &scale, type,
                             transpose ? nullptr : codes.data(), transpose ? codes.data() : nullptr});
  return {scale, codes};
}

TEST(Fp8Quantize, UsesTheWholeRangeAndTransposes) {
  const std::vector<float> numbers = {1, -2, 3, 4, 5, -7};
  const auto [scale, codes] = quantized(numbers, 2, Fp8::e4m3, false);
  EXPECT_EQ(scale, 7.0F / 448);
  EXPECT_EQ(codes[5], 0xFE) << "the largest is -448";
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(from_fp8(codes[i], Fp8::e4m3) * scale, numbers[i], std::fabs(numbers[i]) / 16);
  const auto turned = quantized(numbers, 2, Fp8::e4m3, true);
  EXPECT_EQ(turned.second,
            (std::vector<std::uint8_t>{codes[0], codes[3], codes[1], codes[4], codes[2], codes[5]}));
}

TEST(Fp8Quantize, ZerosStayZerosAndNaNStaysNaN) {
  EXPECT_EQ(quantized({0, 0, 0, 0}, 2, Fp8::e5m2, false).second, std::vector<std::uint8_t>(4, 0));
  const auto [scale, codes] = quantized({std::nanf(""), 57344}, 1, Fp8::e5m2, false);
  EXPECT_EQ(scale, 1);
  EXPECT_TRUE(std::isnan(from_fp8(codes[0], Fp8::e5m2)));
  EXPECT_EQ(from_fp8(codes[1], Fp8::e5m2), 57344);
}

TransformerConfig fp8_config(Arithmetic arithmetic = Arithmetic::fp8) {
  return {.layers = 3,
          .hidden = 32,
          .heads = 2,
          .ffn = 48,
          .vocab = 13,
          .sequence = 16,
          .arithmetic = arithmetic};
}

TEST(Fp8Transformer, FollowsFloat32LessCloselyThanBf16) {
  TransformerRun exact(fp8_config(Arithmetic::float32), chain_of_stages(2));
  TransformerRun bf16(host_gpu_model(fp8_config(Arithmetic::bf16)), chain_of_stages(2));
  TransformerRun fp8(host_gpu_model(fp8_config()), chain_of_stages(2));
  for (TransformerRun* run : {&exact, &bf16, &fp8}) run->run(0);
  const double apart = distance(floats(exact.gradients()), floats(fp8.gradients()));
  EXPECT_LT(apart, 0.3);
  EXPECT_GT(apart, 2 * distance(floats(exact.gradients()), floats(bf16.gradients())));
  EXPECT_NEAR(exact.loss<double>(), fp8.loss<float>(), 0.05);
}

TEST(Fp8Transformer, LearnsAndRecomputesTheSameBits) {
  TransformerConfig config = fp8_config();
  config.optimizer = Optimizer::adamw;
  config.learning_rate = 0.01;
  TransformerRun kept(host_gpu_model(config), chain_of_stages(2));
  TransformerRun again(host_gpu_model(config), chain_of_stages(2));
  kept.run(0);
  for (int s = 0; s < 2; ++s) again.forward_without_saving(s, 0);
  for (int s = 0; s < 2; ++s) again.compute(OpKind::recompute, s, 0);
  again.backward(0);
  EXPECT_EQ(kept.gradients(), again.gradients());
  const auto first = kept.loss<float>();
  for (int step = 0; step < 20; ++step) {
    kept.update();
    kept.clear_gradients();
    kept.run(0);
  }
  EXPECT_LT(kept.loss<float>(), first / 2);
}

/// Two steps of training under the executor of streams.
Expected<RunResult> trained(FakeGpu& gpu, const std::string& schedule, const FakeRunOptions& options,
                            const TransformerFaults& faults = {}) {
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.optimizer = true;
  const Program program =
      lower(generate(schedule, {.ranks = 2, .microbatches = 3}).value(), lowering).value();
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, fp8_config(), faults); };
  return run_kernels_on_fake(gpu, program, make, options);
}

TEST(Fp8Transformer, HasTheSameBitsInEverySchedule) {
  FakeGpu one({.devices = 2});
  FakeGpu other({.devices = 2});
  const auto streamed = trained(one, "1f1b", {.steps = 2});
  const auto graphs = trained(other, "zb-h1", {.cuda = {.graphs = true, .host_threads = false}, .steps = 2});
  ASSERT_TRUE(streamed && graphs);
  EXPECT_TRUE(one.faults().empty() && other.faults().empty());
  EXPECT_EQ(streamed->losses, graphs->losses);
  EXPECT_EQ(streamed->gradients, graphs->gradients);
}

/// How often the largest number of a matrix was looked for in a run, and by what: "" between two steps.
std::map<std::string, int> roundings_of(const std::string& schedule) {
  FakeGpu gpu({.devices = 2});
  std::map<std::string, int> found;
  std::string open;
  const TransformerFaults counting{.kernels = [&](cuda::KernelTable& table) {
    table.find_scale = [&, find = table.find_scale](void* stream, const cuda::FindScale& call) {
      ++found[open];
      return find(stream, call);
    };
  }};
  FakeRunOptions options{.steps = 2};
  options.tamper = [&](GpuApi& api) {
    api.marks.push = [&, push = api.marks.push](const char* name) {
      const std::string mark(name);
      open = mark.starts_with("PP:") && mark != "PP:step" && mark != "PP:prepare" ? mark.substr(3) : "";
      push(name);
    };
    api.marks.pop = [&, pop = api.marks.pop] {
      open.clear();
      pop();
    };
  };
  EXPECT_TRUE(trained(gpu, schedule, options, counting));
  return found;
}

/// Stage 1 has two of the three layers, each with four matrices of weights. F rounds what it multiplies them
/// with, I the gradients, W both of its operands: none of them rounds weights, which OPT does.
TEST(Fp8Transformer, WeightsAreRoundedWhenTheyChangeAndByNoOtherAction) {
  constexpr int kSteps = 2;
  constexpr int kMatrices = 2 * 4;
  const auto found = roundings_of("zb-h1");
  // The warm-up has an action of each kind.
  for (const auto& [microbatch, runs] : {std::pair("0", kSteps + 1), {"1", kSteps}, {"2", kSteps}}) {
    EXPECT_EQ(found.at(std::string("1F") + microbatch), runs * kMatrices);
    EXPECT_EQ(found.at(std::string("1I") + microbatch), runs * kMatrices);
    EXPECT_EQ(found.at(std::string("1W") + microbatch), runs * 2 * kMatrices);
  }
  EXPECT_EQ(found.at("1OPT0"), (kSteps + 1) * kMatrices);
}

/// pipedream has a version of the weights for each live activation: every one comes with its copies.
TEST(Fp8Transformer, EveryVersionOfTheWeightsIsThereInFp8) {
  const Program program = lower(generate("pipedream", {.ranks = 2, .microbatches = 4}).value(), {}).value();
  std::vector<std::vector<std::byte>> bits;
  for (const bool graphs : {false, true}) {
    FakeGpu gpu({.devices = 2});
    const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, fp8_config()); };
    const auto result = run_kernels_on_fake(gpu, program, make,
                                            {.cuda = {.graphs = graphs, .host_threads = false}, .steps = 2});
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_TRUE(gpu.faults().empty()) << faults_of(gpu);
    for (const BlockGradients& block : result->gradients) bits.push_back(block.values);
  }
  const std::size_t half = bits.size() / 2;
  EXPECT_TRUE(std::equal(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(half),
                         bits.begin() + static_cast<std::ptrdiff_t>(half)));
}

/// Of three products of a layer of weights the first one has two operands of values, the others a gradient
/// each.
TEST(Fp8Transformer, GradientsHaveTheTypeOfTheWiderRange) {
  std::map<int, int> types;
  const TransformerFaults counting{.cublaslt = [&types](CublasLtTable& table) {
    table.layout_create = [&types, make = table.layout_create](void** layout, int type, std::uint64_t rows,
                                                               std::uint64_t columns, std::int64_t stride) {
      ++types[type];
      return make(layout, type, rows, columns, stride);
    };
  }};
  FakeGpu gpu({.devices = 2});
  ASSERT_TRUE(trained(gpu, "1f1b", {}, counting));
  EXPECT_GT(types[kCudaTypeFloat8E5M2], 0);
  EXPECT_EQ(types[kCudaTypeFloat8E4M3], 2 * types[kCudaTypeFloat8E5M2]);
}

TEST(Fp8Transformer, ADeviceWithoutFp8IsNamed) {
  FakeGpu gpu({.devices = 2});
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    api.cuda.device_attribute = [attribute = api.cuda.device_attribute](int* value, int which, int device) {
      const int result = attribute(value, which, device);
      if (which == kCudaAttributeMajor) *value = 8;
      if (which == kCudaAttributeMinor) *value = 6;
      return result;
    };
  };
  const auto result = trained(gpu, "1f1b", options);
  ASSERT_FALSE(result);
  EXPECT_EQ(
      result.error().message,
      "rank 0: opening its stages: fp8 needs a device of compute capability 8.9 or more; device 0 has 8.6");
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  EXPECT_FALSE(gpu.found(FaultKind::leak));
}

TEST(Fp8Transformer, SizesThatFp8CannotMultiplyAreRefused) {
  for (auto field : {&TransformerConfig::hidden, &TransformerConfig::ffn, &TransformerConfig::sequence}) {
    TransformerConfig config = fp8_config();
    config.*field = 24;
    EXPECT_EQ(make_transformer(config).error().message,
              "transformer: fp8 needs hidden, ffn and the tokens of a microbatch in multiples of 16");
  }
}

}  // namespace
}  // namespace ppsim::test

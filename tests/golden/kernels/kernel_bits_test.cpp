// The output of each kernel for fixed numbers, as hashes of the bits: a change of a kernel that changes a bit
// fails here. The emulated kernels are compiled without contraction, so every compiler and level of
// optimization gives these bits.

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/ir/hash.hpp"
#include "support/golden.hpp"
#include "support/host_kernels.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using cuda::Bf16;
using cuda::LossParts;
using cuda::Ring;
using cuda::Stored;

const cuda::KernelTable& run() {
  static const cuda::KernelTable table = test::host_kernels(test::immediately());
  return table;
}

template <class T>
using SumOf = typename cuda::Numbers<T>::Sum;
template <class T>
constexpr Stored stored_as() {
  if constexpr (std::is_same_v<T, Bf16>) return Stored::bf16;
  return std::is_same_v<T, Ring> ? Stored::ring : Stored::float32;
}
template <class T>
std::string name_of() {
  return stored_as<T>() == Stored::bf16 ? "bf16" : stored_as<T>() == Stored::ring ? "ring" : "float32";
}

/// A line for each call: the kernel, the type, the shape, and a hash of all that it wrote.
class Sheet {
 public:
  template <class... Output>
  void add(const std::string& call, const std::vector<Output>&... outputs) {
    std::vector<std::byte> all;
    const auto append = [&](const auto& output) {
      const auto bytes = std::as_bytes(std::span(output));
      all.insert(all.end(), bytes.begin(), bytes.end());
    };
    (append(outputs), ...);
    text_ += call + ": " + bytes_hash(all).substr(0, 16) + '\n';
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Sheets whose bits depend on nothing else, and those that depend on how the host's library rounds exp, log
/// and pow.
struct Sheets {
  Sheet exact, of_libm;
};
/// The hash of glibc 2.36, whose functions with FMA and without have the same bits here.
constexpr const char* kKnownLibm = "71daaf93ae306ce2";
std::string hash_of_libm() {
  std::vector<float> values;
  for (int i = 1; i <= 4096; ++i) {
    const float at = static_cast<float>(i) / 256;
    values.insert(values.end(), {std::exp(-at), std::exp(at), std::log(at)});
  }
  return bytes_hash(std::as_bytes(std::span(values))).substr(0, 16);
}

/// Numbers in [-2, 2), or any of the ring.
template <class T>
std::vector<T> drawn(std::int64_t count, std::uint64_t stream) {
  std::vector<T> all;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const std::uint64_t bits = cuda::random_at(11, stream, i);
    if constexpr (std::is_same_v<T, Ring>)
      all.push_back(bits);
    else
      all.push_back(cuda::Numbers<T>::store(static_cast<float>(bits >> 40) / (1 << 22) - 2));
  }
  return all;
}
template <class T>
std::vector<T> zeros(std::int64_t count) {
  return std::vector<T>(static_cast<std::size_t>(count));
}
std::vector<std::int32_t> drawn_tokens(std::int64_t count, std::int32_t vocab) {
  std::vector<std::int32_t> all;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
    all.push_back(static_cast<std::int32_t>(cuda::random_at(11, 99, i) % static_cast<std::uint64_t>(vocab)));
  return all;
}

struct Shape {
  std::int64_t rows, columns;
  [[nodiscard]] std::int64_t count() const { return rows * columns; }
};
template <class T>
std::string named(const std::string& kernel, const Shape& shape) {
  return kernel + ' ' + name_of<T>() + ' ' + std::to_string(shape.rows) + 'x' + std::to_string(shape.columns);
}

template <class T>
void norms(Sheets& sheets, const Shape& shape) {
  const auto [rows, columns] = shape;
  const auto x = drawn<T>(shape.count(), 1), gain = drawn<T>(columns, 2), d = drawn<T>(shape.count(), 3);
  auto unit = zeros<T>(shape.count()), result = unit;
  auto scale = zeros<SumOf<T>>(rows);
  run().norm_forward(nullptr, stored_as<T>(),
                     {rows, columns, x.data(), gain.data(), unit.data(), scale.data(), result.data()});
  sheets.exact.add(named<T>("norm_forward", shape), unit, scale, result);
  run().apply_gain(nullptr, stored_as<T>(), {rows, columns, x.data(), gain.data(), result.data()});
  sheets.exact.add(named<T>("apply_gain", shape), result);
  const auto own_scale = drawn<SumOf<T>>(rows, 4);
  auto d_x = drawn<T>(shape.count(), 5);
  auto d_gain = zeros<SumOf<T>>(columns);
  const auto residual = d_x;
  auto partial = zeros<SumOf<T>>(cuda::gain_chunks(rows) * columns);
  run().norm_backward(nullptr, stored_as<T>(),
                      {rows, columns, x.data(), own_scale.data(), gain.data(), d.data(), residual.data(),
                       partial.data(), d_gain.data(), d_x.data()});
  sheets.exact.add(named<T>("norm_backward", shape), d_gain, d_x);
}

/// The last rows of two matrices that are `columns` square.
template <class T>
void softmaxes(Sheets& sheets, const Shape& shape) {
  const auto [rows, columns] = shape;
  constexpr std::int64_t kMatrices = 2;
  const std::int64_t count = kMatrices * shape.count();
  auto scores = drawn<T>(count, 1), d = drawn<T>(count, 3);
  const auto probabilities = drawn<T>(count, 2);
  run().causal_softmax(nullptr, stored_as<T>(), {kMatrices, rows, columns, 0.5F, scores.data()});
  sheets.of_libm.add(named<T>("causal_softmax", shape), scores);
  run().causal_softmax_backward(nullptr, stored_as<T>(),
                                {kMatrices, rows, columns, 0.5F, probabilities.data(), d.data()});
  sheets.exact.add(named<T>("causal_softmax_backward", shape), d);
}

template <class T>
void element_wise(Sheets& sheets, const Shape& shape) {
  const auto [rows, columns] = shape;
  const auto sums = drawn<SumOf<T>>(shape.count(), 1);
  const std::int64_t stride = columns + 8;
  auto stored = zeros<T>(rows * stride);
  run().store_sums(nullptr, stored_as<T>(), {rows, columns, sums.data(), stored.data(), stride});
  sheets.exact.add(named<T>("store_sums", shape), stored);
  const auto gate_up = drawn<T>(2 * shape.count(), 2), d = drawn<T>(shape.count(), 3);
  auto activated = zeros<T>(shape.count()), d_gate_up = zeros<T>(2 * shape.count());
  run().gate(nullptr, stored_as<T>(), {rows, columns, gate_up.data(), activated.data()});
  sheets.of_libm.add(named<T>("gate", shape), activated);
  run().gate_backward(nullptr, stored_as<T>(), {rows, columns, gate_up.data(), d.data(), d_gate_up.data()});
  sheets.of_libm.add(named<T>("gate_backward", shape), d_gate_up);
}

/// Of a vocabulary of 40 tokens the table has 33, from the third on.
template <class T>
void embeds(Sheets& sheets, const Shape& shape) {
  const auto [rows, columns] = shape;
  constexpr std::int64_t kFirst = 2, kVocab = 33, kLength = 5;
  const auto tokens = drawn_tokens(rows, 40);
  const auto table = drawn<T>(kVocab * columns, 1), positions = drawn<T>(kLength * columns, 2);
  auto stream = zeros<T>(shape.count());
  run().embed(
      nullptr, stored_as<T>(),
      {rows, kLength, columns, kFirst, kVocab, tokens.data(), table.data(), positions.data(), stream.data()});
  sheets.exact.add(named<T>("embed", shape), stream);
  const auto d_stream = drawn<T>(shape.count(), 3);
  auto d_table = drawn<SumOf<T>>(kVocab * columns, 4), d_positions = drawn<SumOf<T>>(kLength * columns, 5);
  auto workspace = zeros<std::int32_t>(cuda::token_workspace(rows));
  run().embed_backward(nullptr, stored_as<T>(),
                       {rows, kLength, columns, kFirst, kVocab, tokens.data(), d_stream.data(),
                        workspace.data(), d_table.data(), d_positions.data()});
  sheets.exact.add(named<T>("embed_backward", shape), d_table, d_positions);
}

/// Sums of exponentials are not below 1.
template <class T>
std::vector<LossParts<SumOf<T>>> drawn_parts(std::int64_t rows, std::uint64_t stream) {
  const auto numbers = drawn<SumOf<T>>(3 * rows, stream);
  std::vector<LossParts<SumOf<T>>> all;
  for (std::size_t i = 0; i < numbers.size(); i += 3)
    all.push_back({numbers[i], numbers[i + 1] + 3, numbers[i + 2]});
  return all;
}

template <class T>
void losses(Sheets& sheets, const Shape& shape) {
  const auto [rows, vocab] = shape;
  const auto targets = drawn_tokens(rows, static_cast<std::int32_t>(vocab));
  auto logits = drawn<T>(shape.count(), 1), part = logits, closed = logits;
  auto row_losses = zeros<SumOf<T>>(rows), loss = zeros<SumOf<T>>(1);
  run().loss(nullptr, stored_as<T>(),
             {rows, rows + 1, vocab, 5, targets.data(), logits.data(), row_losses.data(), loss.data()});
  sheets.of_libm.add(named<T>("loss", shape), logits, row_losses, loss);
  auto own = zeros<LossParts<SumOf<T>>>(rows), all = own;
  run().open_loss(nullptr, stored_as<T>(),
                  {rows, 1, vocab, 5, targets.data(), part.data(), own.data(), all.data()});
  sheets.of_libm.add(named<T>("open_loss", shape), part, own, all);
  own = drawn_parts<T>(rows, 2), all = drawn_parts<T>(rows, 3);
  run().close_loss(nullptr, stored_as<T>(),
                   {rows, rows + 1, 1, vocab, targets.data(), own.data(), all.data(), closed.data(),
                    row_losses.data(), loss.data()});
  sheets.of_libm.add(named<T>("close_loss", shape), closed, row_losses, loss);
  const auto weights = drawn<T>(7 * vocab, 4);
  auto of_targets = zeros<T>(rows * 7);
  run().target_weights(nullptr, stored_as<T>(),
                       {rows, 7, rows + 1, 1, vocab, targets.data(), weights.data(), of_targets.data()});
  sheets.exact.add(named<T>("target_weights", shape), of_targets);
}

/// Three parts, each with statistics, the scaled numbers, and those to subtract.
template <class T>
void parts(Sheets& sheets, const Shape& shape) {
  using Parts = LossParts<SumOf<T>>;
  constexpr std::int64_t kParts = 3;
  const auto whole = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  const auto numbers = static_cast<std::size_t>(shape.count()) * sizeof(T);
  const std::size_t scaled = whole(static_cast<std::size_t>(shape.rows) * sizeof(Parts));
  const std::size_t of_targets = scaled + whole(numbers), stride = of_targets + whole(numbers);
  auto memory = zeros<std::byte>(kParts * static_cast<std::int64_t>(stride));
  for (std::size_t p = 0; p < kParts; ++p) {
    std::byte* const own = memory.data() + p * stride;
    const auto statistics = drawn_parts<T>(shape.rows, 10 + p);
    memcpy(own, statistics.data(), statistics.size() * sizeof(Parts));
    memcpy(own + scaled, drawn<T>(shape.count(), 20 + p).data(), numbers);
    memcpy(own + of_targets, drawn<T>(shape.count(), 30 + p).data(), numbers);
  }
  run().merge_loss(nullptr, stored_as<T>(),
                   {kParts, static_cast<std::int64_t>(stride), shape.rows, shape.columns, shape.rows,
                    memory.data(), memory.data() + scaled, memory.data() + of_targets});
  auto merged = zeros<Parts>(shape.rows);
  auto sums = zeros<T>(shape.count());
  memcpy(merged.data(), memory.data(), merged.size() * sizeof(Parts));
  memcpy(sums.data(), memory.data() + scaled, numbers);
  sheets.of_libm.add(named<T>("merge_loss", shape), merged, sums);
  run().sum_parts(nullptr, stored_as<T>(),
                  {kParts, static_cast<std::int64_t>(stride), shape.count(), memory.data() + of_targets});
  memcpy(sums.data(), memory.data() + of_targets, numbers);
  sheets.exact.add(named<T>("sum_parts", shape), sums);
}

template <class T>
void sums(Sheets& sheets, const Shape& shape) {
  const std::int64_t count = shape.count();
  auto into = drawn<SumOf<T>>(count, 1);
  const auto from = drawn<SumOf<T>>(count, 2);
  run().accumulate(nullptr, stored_as<T>(), {count, into.data(), from.data()});
  sheets.exact.add(named<T>("accumulate", shape), into);
  auto partial = zeros<double>(cuda::kPartials);
  std::vector<double> norm = {0.25};
  run().squared_norm(nullptr, stored_as<T>(), {count, from.data(), partial.data(), norm.data()});
  sheets.exact.add(named<T>("squared_norm", shape), norm);
}

template <class T>
void updates(Sheets& sheets, const Shape& shape, bool adam) {
  const std::int64_t count = shape.count();
  auto parameters = zeros<T>(count);
  run().draw_weights(nullptr, stored_as<T>(),
                     {3, 4, 5, shape.rows, shape.columns, shape.columns + 2, 6, parameters.data()});
  if (adam) sheets.exact.add(named<T>("draw_weights", shape), parameters);
  auto state = drawn<float>(std::is_same_v<T, Ring> ? 2 * count : 3 * count, 1);
  auto steps = zeros<std::int64_t>(1);
  run().start_state(nullptr, stored_as<T>(), {count, parameters.data(), state.data(), steps.data()});
  if (adam) sheets.exact.add(named<T>("start_state", shape), state, steps);
  const double norm = 9;
  auto factors = zeros<float>(cuda::kDescendFactors);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto gradients = drawn<SumOf<T>>(count, 2 + step);
    run().descend(nullptr, stored_as<T>(),
                  {.count = count,
                   .adam = adam,
                   .learning_rate = 0.01,
                   .beta1 = 0.9,
                   .beta2 = 0.95,
                   .epsilon = 1e-8,
                   .weight_decay = 0.1,
                   .squared_norm = &norm,
                   .largest_norm = 1,
                   .parameters = parameters.data(),
                   .gradients = gradients.data(),
                   .state = state.data(),
                   .steps = steps.data(),
                   .factors = factors.data()});
  }
  sheets.of_libm.add(named<T>(adam ? "descend adamw" : "descend momentum", shape), parameters, state, steps);
}

template <class T>
void of_type(Sheets& sheets, const Shape& shape) {
  norms<T>(sheets, shape);
  element_wise<T>(sheets, shape);
  embeds<T>(sheets, shape);
  losses<T>(sheets, shape);
  parts<T>(sheets, shape);
  sums<T>(sheets, shape);
  for (const bool adam : {true, false}) updates<T>(sheets, shape, adam);
  if (shape.rows <= shape.columns) softmaxes<T>(sheets, shape);
}

void products(Sheets& sheets, const Shape& shape) {
  constexpr std::int64_t kInner = 5, kBatches = 2;
  const auto a = drawn<Ring>(kBatches * shape.rows * kInner, 1),
             b = drawn<Ring>(kBatches * kInner * shape.columns, 2);
  auto c = drawn<Ring>(kBatches * shape.count(), 3);
  run().ring_product(nullptr, {shape.rows, shape.columns, kInner, kBatches, a.data(), kInner, 1,
                               shape.rows * kInner, b.data(), shape.columns, 1, kInner * shape.columns,
                               c.data(), shape.columns, shape.count(), true});
  sheets.exact.add(named<Ring>("ring_product", shape), c);
}

void fp8(Sheets& sheets, const Shape& shape) {
  const auto values = drawn<Bf16>(shape.count(), 1);
  for (const cuda::Fp8 type : {cuda::Fp8::e4m3, cuda::Fp8::e5m2}) {
    auto partial = zeros<float>(cuda::kPartials), scale = zeros<float>(1);
    run().find_scale(nullptr, {shape.count(), values.data(), type, partial.data(), scale.data()});
    const std::string format = type == cuda::Fp8::e4m3 ? " e4m3" : " e5m2";
    sheets.exact.add(named<Bf16>("find_scale" + format, shape), scale);
    scale[0] *= 0.75F;  // some saturate
    auto by_rows = zeros<std::uint8_t>(shape.count()), by_columns = by_rows;
    run().quantize(nullptr, {shape.rows, shape.columns, values.data(), scale.data(), type, by_rows.data(),
                             by_columns.data()});
    sheets.exact.add(named<Bf16>("quantize" + format, shape), by_rows, by_columns);
  }
}

void single(Sheets& sheets) {
  auto tokens = zeros<std::int32_t>(3 * 50);
  const std::int64_t step = 2;
  for (const bool next : {false, true}) {
    run().draw_tokens(nullptr, {.seed = 1,
                                .step = &step,
                                .microbatch = nullptr,
                                .per_step = 6,
                                .first = 3,
                                .sequences = 3,
                                .before = 4,
                                .length = 50,
                                .vocab = 61,
                                .next = next,
                                .tokens = tokens.data()});
    sheets.exact.add(next ? "draw_tokens next" : "draw_tokens", tokens);
  }
  std::vector<double> norm = {0.1};
  const double more = 0.7;
  run().add_norm(nullptr, {norm.data(), &more});
  sheets.exact.add("add_norm", norm);
  auto number = zeros<std::int64_t>(1);
  run().write_number(nullptr, {12345, number.data()});
  sheets.exact.add("write_number", number);
}

/// Odd rows, rows of whole packs, rows longer than the threads of a block hold, and many short ones.
Sheets all_sheets() {
  Sheets sheets;
  for (const Shape& shape : {Shape{19, 34}, {3, 264}, {2, 8200}, {300, 24}}) {
    of_type<Bf16>(sheets, shape);
    of_type<float>(sheets, shape);
    of_type<Ring>(sheets, shape);
    products(sheets, shape);
    fp8(sheets, shape);
  }
  single(sheets);
  return sheets;
}

TEST(KernelBits, AreThoseOfTheFile) {
  EXPECT_EQ(test::golden_difference("kernels/exact.txt", all_sheets().exact.text()), "");
}

TEST(KernelBits, OfExponentialsAreThoseOfTheFile) {
  const std::string libm = hash_of_libm();
  if (libm != kKnownLibm) GTEST_SKIP() << "NOT RUN: exp and log are rounded otherwise here: " << libm;
  EXPECT_EQ(test::golden_difference("kernels/of_libm.txt", all_sheets().of_libm.text()), "");
}

}  // namespace
}  // namespace ppsim

#include "support/kernel_operands.hpp"

#include "transformer/kernels/numbers.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using namespace cuda;

/// Bytes of one number.
struct Sizes {
  explicit Sizes(Stored type)
      : stored(type == Stored::bf16      ? 2
               : type == Stored::float32 ? 4
                                         : 8),
        sum(type == Stored::ring ? sizeof(Ring) : sizeof(float)),
        parts(type == Stored::ring ? sizeof(LossParts<Ring>) : sizeof(LossParts<float>)) {}
  std::size_t stored, sum, parts;
};

/// Collects what is touched, in numbers of so many bytes; null is nothing.
struct Operands {
  Operands& read(const void* memory, std::int64_t count, std::size_t each) {
    if (memory != nullptr) access.reads.push_back(bytes(memory, count, each));
    return *this;
  }
  Operands& write(const void* memory, std::int64_t count, std::size_t each) {
    if (memory != nullptr) access.writes.push_back(bytes(memory, count, each));
    return *this;
  }
  Operands& change(const void* memory, std::int64_t count, std::size_t each) {
    return read(memory, count, each).write(memory, count, each);
  }
  static std::span<const std::byte> bytes(const void* memory, std::int64_t count, std::size_t each) {
    return {static_cast<const std::byte*>(memory), static_cast<std::size_t>(count) * each};
  }
  KernelAccess access;
};

const void* part(const void* first, std::int64_t bytes) {
  return first == nullptr ? nullptr : static_cast<const std::byte*>(first) + bytes;
}

}  // namespace

KernelAccess operands(Stored stored, const NormForward& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.x, c.rows * c.columns, size.stored)
      .read(c.gain, c.columns, size.stored)
      .write(c.unit, c.rows * c.columns, size.stored)
      .write(c.scale, c.rows, size.sum)
      .write(c.result, c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const ApplyGain& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.unit, c.rows * c.columns, size.stored)
      .read(c.gain, c.columns, size.stored)
      .write(c.result, c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const NormBackward& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.unit, c.rows * c.columns, size.stored)
      .read(c.scale, c.rows, size.sum)
      .read(c.gain, c.columns, size.stored)
      .read(c.d_result, c.rows * c.columns, size.stored)
      .read(c.residual, c.rows * c.columns, size.stored)
      .write(c.partial, gain_chunks(c.rows) * c.columns, size.sum)
      .write(c.d_gain, c.columns, size.sum)
      .write(c.d_x, c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const CausalSoftmax& c) {
  return Operands().change(c.scores, c.matrices * c.rows * c.columns, Sizes(stored).stored).access;
}

KernelAccess operands(Stored stored, const CausalSoftmaxBackward& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.probabilities, c.matrices * c.rows * c.columns, size.stored)
      .change(c.d_scores, c.matrices * c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const StoreSums& c) {
  const Sizes size(stored);
  const auto row_bytes = c.stride * static_cast<std::int64_t>(size.stored);
  Operands all;
  all.read(c.sums, c.rows * c.columns, size.sum);
  for (std::int64_t r = 0; r < c.rows; ++r) all.write(part(c.result, r * row_bytes), c.columns, size.stored);
  return all.access;
}

KernelAccess operands(Stored stored, const Gate& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.gate_up, 2 * c.rows * c.width, size.stored)
      .write(c.activated, c.rows * c.width, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const GateBackward& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.gate_up, 2 * c.rows * c.width, size.stored)
      .read(c.d_activated, c.rows * c.width, size.stored)
      .write(c.d_gate_up, 2 * c.rows * c.width, size.stored)
      .access;
}

KernelAccess operands(const DrawTokens& c) {
  return Operands()
      .read(c.step, 1, sizeof *c.step)
      .read(c.microbatch, 1, sizeof *c.microbatch)
      .write(c.tokens, c.sequences * c.length, sizeof *c.tokens)
      .access;
}

KernelAccess operands(const WriteNumber& c) { return Operands().write(c.to, 1, sizeof *c.to).access; }

KernelAccess operands(Stored stored, const Embed& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.tokens, c.rows, sizeof *c.tokens)
      .read(c.table, c.vocab * c.columns, size.stored)
      .read(c.positions, c.length * c.columns, size.stored)
      .write(c.stream, c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const EmbedBackward& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.tokens, c.rows, sizeof *c.tokens)
      .read(c.d_stream, c.rows * c.columns, size.stored)
      .write(c.workspace, token_workspace(c.rows), sizeof *c.workspace)
      .change(c.d_table, c.vocab * c.columns, size.sum)
      .change(c.d_positions, c.length * c.columns, size.sum)
      .access;
}

KernelAccess operands(Stored stored, const Loss& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.targets, c.rows, sizeof *c.targets)
      .change(c.logits, c.rows * c.vocab, size.stored)
      .write(c.row_losses, c.rows, size.sum)
      .write(c.loss, 1, size.sum)
      .access;
}

KernelAccess operands(Stored stored, const OpenLoss& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.targets, c.rows, sizeof *c.targets)
      .change(c.logits, c.rows * c.vocab, size.stored)
      .write(c.own, c.rows, size.parts)
      .write(c.all, c.rows, size.parts)
      .access;
}

KernelAccess operands(Stored stored, const CloseLoss& c) {
  const Sizes size(stored);
  Operands all;
  all.read(c.targets, c.rows, sizeof *c.targets)
      .read(c.own, c.rows, size.parts)
      .read(c.all, c.rows, size.parts)
      .change(c.logits, c.rows * c.vocab, size.stored);
  if (c.row_losses != nullptr) all.write(c.row_losses, c.rows, size.sum).write(c.loss, 1, size.sum);
  return all.access;
}

KernelAccess operands(Stored stored, const TargetWeights& c) {
  const Sizes size(stored);
  return Operands()
      .read(c.targets, c.rows, sizeof *c.targets)
      .read(c.weights, c.columns * c.vocab, size.stored)
      .write(c.result, c.rows * c.columns, size.stored)
      .access;
}

KernelAccess operands(Stored stored, const MergeLoss& c) {
  const Sizes size(stored);
  Operands all;
  for (std::int64_t p = 0; p < c.parts; ++p) {
    all.change(part(c.statistics, p * c.stride), c.rows, size.parts);
    if (c.scaled == nullptr) continue;
    all.read(part(c.scaled, p * c.stride), c.rows * c.columns, size.stored)
        .read(part(c.of_targets, p * c.stride), c.rows * c.columns, size.stored);
  }
  all.write(c.scaled, c.rows * c.columns, size.stored);
  return all.access;
}

KernelAccess operands(Stored stored, const SumParts& c) {
  const Sizes size(stored);
  Operands all;
  for (std::int64_t p = 0; p < c.parts; ++p) all.read(part(c.numbers, p * c.stride), c.count, size.stored);
  all.write(c.numbers, c.count, size.stored);
  return all.access;
}

KernelAccess operands(Stored stored, const Accumulate& c) {
  const Sizes size(stored);
  return Operands().change(c.into, c.count, size.sum).read(c.from, c.count, size.sum).access;
}

KernelAccess operands(Stored stored, const SquaredNorm& c) {
  return Operands()
      .read(c.values, c.count, Sizes(stored).sum)
      .write(c.partial, kPartials, sizeof *c.partial)
      .change(c.result, 1, sizeof *c.result)
      .access;
}

KernelAccess operands(const AddNorm& c) {
  return Operands().change(c.into, 1, sizeof *c.into).read(c.from, 1, sizeof *c.from).access;
}

KernelAccess operands(Stored stored, const Descend& c) {
  const Sizes size(stored);
  const bool exact = stored == Stored::ring;
  return Operands()
      .change(c.parameters, c.count, size.stored)
      .read(c.gradients, c.count, size.sum)
      .change(c.state, exact ? c.count : 3 * c.count, size.sum)
      .change(exact ? nullptr : c.steps, 1, sizeof *c.steps)
      .write(exact ? nullptr : c.factors, kDescendFactors, sizeof *c.factors)
      .read(c.squared_norm, 1, sizeof *c.squared_norm)
      .access;
}

KernelAccess operands(Stored stored, const DrawWeights& c) {
  return Operands().write(c.weights, c.rows * c.columns, Sizes(stored).stored).access;
}

KernelAccess operands(Stored stored, const StartState& c) {
  const Sizes size(stored);
  const bool exact = stored == Stored::ring;
  return Operands()
      .read(c.parameters, c.count, size.stored)
      .write(c.state, exact ? c.count : 3 * c.count, size.sum)
      .write(exact ? nullptr : c.steps, 1, sizeof *c.steps)
      .access;
}

KernelAccess operands(const RingProduct& c) {
  const auto reach = [](std::int64_t outer, std::int64_t stride, std::int64_t inner, std::int64_t step) {
    return (outer - 1) * stride + (inner - 1) * step + 1;
  };
  Operands all;
  for (std::int64_t n = 0; n < c.batches; ++n) {
    all.read(c.a + n * c.a_batch, reach(c.rows, c.a_row, c.inner, c.a_inner), sizeof *c.a)
        .read(c.b + n * c.b_batch, reach(c.inner, c.b_inner, c.columns, c.b_column), sizeof *c.b);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const Ring* row = c.c + n * c.c_batch + r * c.c_row;
      if (c.accumulate) all.read(row, c.columns, sizeof *row);
      all.write(row, c.columns, sizeof *row);
    }
  }
  return all.access;
}

KernelAccess operands(const FindScale& c) {
  return Operands()
      .read(c.values, c.count, sizeof(Bf16))
      .write(c.partial, kPartials, sizeof *c.partial)
      .write(c.scale, 1, sizeof *c.scale)
      .access;
}

KernelAccess operands(const Quantize& c) {
  Operands all;
  all.read(c.values, c.rows * c.columns, sizeof(Bf16)).read(c.scale, 1, sizeof *c.scale);
  for (const std::uint8_t* codes : {c.by_rows, c.by_columns}) {
    if (codes != nullptr) all.write(codes, c.rows * c.columns, sizeof *codes);
  }
  return all.access;
}

}  // namespace ppsim::test

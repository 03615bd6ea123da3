#include <algorithm>

#include "certificate_parts.hpp"
#include "happens_before_maker.hpp"
#include "ppsim/core/check.hpp"
#include "ppsim/core/tensor_order.hpp"

namespace ppsim {
namespace {

/// Checks the witness of one rank. Bytes handed from tensor to tensor along reuses make chains whose members
/// are never there together; what no reuse hands on counts once for each chain.
class WitnessCheck {
 public:
  WitnessCheck(const MemoryWitness& witness, const TensorOrder& order, const std::vector<Bytes>& sizes)
      : witness_(witness),
        order_(order),
        sizes_(sizes),
        given_(order.last() - order.first(), 0),
        taken_(order.last() - order.first(), 0) {}

  Expected<void> run() {
    Bytes needed = 0;
    for (std::uint32_t t = order_.first(); t < order_.last(); ++t) needed = checked_add(needed, sizes_[t]);
    for (const Reuse& reuse : witness_.reuse) {
      if (auto step = check(reuse); !step) return step;
      needed -= reuse.bytes;
    }
    if (witness_.bytes >= needed) return {};
    return refuse("rank ", witness_.rank, ": a bound of ", witness_.bytes,
                  " bytes, but sizes less reuse are ", needed);
  }

 private:
  Expected<void> check(const Reuse& reuse) {
    for (const std::uint32_t tensor : {reuse.earlier, reuse.later}) {
      if (tensor < order_.first() || tensor >= order_.last()) {
        return refuse("rank ", witness_.rank, ": tensor ", tensor, " is not on the rank");
      }
    }
    if (reuse.bytes < 0) return refuse("rank ", witness_.rank, ": a reuse of ", reuse.bytes, " bytes");
    if (!order_.before(reuse.earlier, reuse.later)) {
      return refuse("rank ", witness_.rank, ": tensor ", reuse.earlier, " may be alive when tensor ",
                    reuse.later, " is allocated");
    }
    if (auto ok = add(given_, reuse.earlier, reuse.bytes); !ok) return ok;
    return add(taken_, reuse.later, reuse.bytes);
  }

  /// Each tensor gives at most its size, and takes at most that.
  Expected<void> add(std::vector<Bytes>& sums, std::uint32_t tensor, Bytes bytes) {
    Bytes& sum = sums[tensor - order_.first()];
    if (bytes > sizes_[tensor] - sum) {
      return refuse("rank ", witness_.rank, ": more bytes of tensor ", tensor, " are reused than its ",
                    sizes_[tensor]);
    }
    sum += bytes;
    return {};
  }

  const MemoryWitness& witness_;
  const TensorOrder& order_;
  const std::vector<Bytes>& sizes_;
  std::vector<Bytes> given_;
  std::vector<Bytes> taken_;
};

/// One witness for each rank.
Expected<void> check_ranks(const std::vector<MemoryWitness>& memory, int ranks) {
  std::vector<bool> seen(static_cast<std::size_t>(ranks), false);
  for (const MemoryWitness& witness : memory) {
    if (!witness.rank.valid() || witness.rank.value() >= ranks) {
      return refuse("memory of rank ", witness.rank, ", which is not there");
    }
    if (seen[witness.rank.index()]) return refuse("memory of rank ", witness.rank, " twice");
    seen[witness.rank.index()] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return {};
  return refuse("no memory of rank ", missing - seen.begin());
}

/// Checks witnesses of ranks that lie side by side, from one pass for all of them.
class MemoryCheck {
 public:
  MemoryCheck(const Certificate& certificate, const Program& program, const ExecutionGraph& graph,
              const SizeTable& sizes)
      : order_{certificate.order, true},
        clocks_(program, graph, order_),
        table_(tensor_table(program)),
        sizes_(tensor_sizes(table_, sizes)),
        witnesses_(certificate.memory.size()) {
    for (const MemoryWitness& witness : certificate.memory) witnesses_[witness.rank] = &witness;
  }

  /// Most reuses follow from what neighbours tell each other; where one does not, everything is looked at.
  Expected<void> run() {
    const RankId end(static_cast<std::int32_t>(witnesses_.size()));
    for (RankId first(0); first < end;) {
      const RankId last = clocks_.end_of_batch(first);
      if (!run(first, last, Reach::neighbours)) {
        if (auto held = run(first, last, Reach::everywhere); !held) return held;
      }
      first = last;
    }
    return {};
  }

 private:
  Expected<void> run(RankId first, RankId last, Reach reach) {
    RankId rank = first;
    for (const HappensBefore& known : clocks_.of_ranks(first, last, reach)) {
      const TensorOrder tensors(table_, known, rank);
      if (auto held = WitnessCheck(*witnesses_[rank], tensors, sizes_).run(); !held) return held;
      rank = RankId(rank.value() + 1);
    }
    return {};
  }

  RunOrder order_;
  HappensBeforeMaker clocks_;
  TensorTable table_;
  std::vector<Bytes> sizes_;
  IdVector<RankId, const MemoryWitness*> witnesses_;
};

}  // namespace

Expected<void> check_certificate_memory(const Certificate& certificate, const Program& program,
                                        const ExecutionGraph& graph, const SizeTable& sizes) {
  if (auto ranks = check_ranks(certificate.memory, program.pipeline().ranks()); !ranks) return ranks;
  return MemoryCheck(certificate, program, graph, sizes).run();
}

}  // namespace ppsim

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>

#include "causality.hpp"
#include "clocks.hpp"
#include "parts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/memory/tensor_use.hpp"

namespace ppsim {
namespace {

using Instructions = std::span<const InstructionId>;
using OrderClock = CertificateClocks::Clock;

constexpr std::uint32_t start_of(InstructionId id) { return 2 * static_cast<std::uint32_t>(id.value()); }
constexpr std::uint32_t completion_of(InstructionId id) { return start_of(id) + 1; }

/// A claim about tensors, which rests on precedences.
struct Claim {
  enum class Kind : std::uint8_t { reuse, complete, freed };
  Kind kind = Kind::reuse;
  std::uint32_t tensor = 0;
  std::uint32_t later = 0;  ///< of a reuse: the other tensor
};

/// Precedences that claims rest on. Those that the ranks' own clocks do not tell are left open, and looked at
/// together in the end.
class Precedences {
 public:
  Precedences(const Program& program, const ExecutionGraph& graph, const std::vector<std::uint32_t>& order)
      : graph_(graph), order_(order), tracks_(program, graph), clocks_(tracks_, program, graph, order) {}

  /// The last part on a track of some instructions.
  struct Last {
    InstructionId of;
    CertificateTracks::Part part;
    int place = CertificateClocks::kUntracked;  ///< of the track, in the clocks of the rank
    [[nodiscard]] bool is_over(OrderClock clock) const {
      return place != CertificateClocks::kUntracked && clock[as_size(place)] >= part.count;
    }
  };

  /// The last events: once they have happened, all instructions are complete.
  /// Requires: of one rank.
  [[nodiscard]] const std::vector<Last>& last_parts(Instructions instructions) {
    last_.clear();
    for (const InstructionId id : instructions) {
      clocks_.for_each_part(id, [&](int place, CertificateTracks::Part part) {
        const auto known =
            std::ranges::find_if(last_, [&](const Last& last) { return last.part.track == part.track; });
        if (known == last_.end()) {
          last_.push_back({id, part, place});
        } else if (known->part.count < part.count) {
          *known = {id, part, place};
        }
      });
    }
    return last_;
  }

  /// The parts are over before the item happens, or `claim` does not hold.
  void expect(const std::vector<Last>& parts, std::uint32_t item, const Claim& claim) {
    const OrderClock clock = clock_of(item);
    for (const Last& last : parts) {
      if (last.is_over(clock)) continue;
      open_.push_back({last.of, last.part, item});
      claims_.push_back(claim);
    }
  }

  /// The part of the past that all the starts share.
  [[nodiscard]] std::vector<std::int32_t> before_any(Instructions instructions) const {
    const OrderClock first = clock_of(start_of(instructions.front()));
    std::vector<std::int32_t> common(first.begin(), first.end());
    for (const InstructionId id : instructions) {
      const OrderClock clock = clock_of(start_of(id));
      std::ranges::transform(common, clock, common.begin(),
                             [](std::int32_t a, std::int32_t b) { return std::min(a, b); });
    }
    return common;
  }

  /// A claim that does not hold.
  [[nodiscard]] std::optional<Claim> find_broken() const {
    const auto broken = ppsim::find_broken(tracks_, graph_, order_, open_);
    return broken ? std::optional(claims_[*broken]) : std::nullopt;
  }

 private:
  [[nodiscard]] OrderClock clock_of(std::uint32_t item) const {
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    return item % 2 == 0 ? clocks_.at_start(id) : clocks_.at_completion(id);
  }

  const ExecutionGraph& graph_;
  const std::vector<std::uint32_t>& order_;
  CertificateTracks tracks_;
  CertificateClocks clocks_;
  std::vector<Last> last_;
  std::vector<Precedence> open_;
  std::vector<Claim> claims_;  ///< of open_
};

class TensorCheck {
 public:
  TensorCheck(const Certificate& certificate, const Program& program, const ExecutionGraph& graph)
      : certificate_(certificate),
        program_(program),
        precedences_(program, graph, certificate.order),
        uses_(tensor_uses(program)),
        tensors_(uses_.table.tensors) {}

  /// Every tensor is complete before it is read, and freed after all else.
  Expected<void> check_use() {
    if (!uses_.unwritten.empty()) {
      const UnwrittenRead& read = uses_.unwritten.front();
      return refuse("rank ", program_.rank_of(read.reader), ": ", actions_text(program_, read.reader),
                    " reads what nothing has written");
    }
    for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
      if (info(tensors_[t].size_class.kind).writes != Writes::once) continue;
      expect_complete(t);
      expect_freed(t);
    }
    return {};
  }

  /// Sizes less reuses are at most the bound, on every rank.
  Expected<void> check_memory(const SizeTable& sizes) {
    PPSIM_RETURN_IF_ERROR(check_ranks());
    sizes_ = tensor_sizes(uses_.table, sizes);
    given_.assign(tensors_.size(), 0);
    taken_.assign(tensors_.size(), 0);
    for (const MemoryWitness& witness : certificate_.memory) {
      PPSIM_RETURN_IF_ERROR(check(witness));
    }
    return {};
  }

  /// Whether what the claims rest on holds in every timing.
  Expected<void> check_precedences() const {
    const auto broken = precedences_.find_broken();
    return broken ? refuse_claim(*broken) : Expected<void>{};
  }

 private:
  static std::string text(const Tensor& tensor) {
    std::ostringstream text;
    text << tensor.size_class;
    if (tensor.microbatch >= 0) text << " of microbatch " << tensor.microbatch;
    return text.str();
  }

  [[nodiscard]] tl::unexpected<Error> refuse_claim(const Claim& claim) const {
    const Tensor& tensor = tensors_[claim.tensor];
    switch (claim.kind) {
      case Claim::Kind::reuse:
        return refuse("rank ", tensor.rank, ": tensor ", claim.tensor, " may be alive when tensor ",
                      claim.later, " is allocated");
      case Claim::Kind::complete:
        return refuse("rank ", tensor.rank, ": ", text(tensor), " may be used before it is complete");
      case Claim::Kind::freed:
        return refuse("rank ", tensor.rank, ": ", text(tensor), " may be used after it is freed");
    }
    PPSIM_CHECK(false, "unknown claim");
  }

  void expect_complete(std::uint32_t t) {
    if (comes_in_parts(tensors_[t])) return expect_parts_complete(t);
    const Instructions writers = uses_.table.writers_of(tensors_[t]);
    const auto& written = precedences_.last_parts(writers);
    for (const InstructionId user : uses_.table.users_of(tensors_[t])) {
      if (std::ranges::binary_search(writers, user)) continue;
      precedences_.expect(written, start_of(user), {Claim::Kind::complete, t});
    }
  }

  void expect_parts_complete(std::uint32_t t) {
    const Instructions all = uses_.table.writers_of(tensors_[t]);
    for (const InstructionId user : uses_.table.users_of(tensors_[t])) {
      if (std::ranges::binary_search(all, user)) continue;
      const auto writers = writers_before(program_, uses_.table, tensors_[t], user);
      precedences_.expect(precedences_.last_parts(writers), start_of(user), {Claim::Kind::complete, t});
    }
  }

  void expect_freed(std::uint32_t t) {
    const Instructions users = uses_.table.users_of(tensors_[t]);
    const auto freeing = std::ranges::find_if(users, [&](InstructionId id) {
      const auto actions = program_.actions(id);
      return std::ranges::any_of(actions, [&](const Action& action) { return frees(action, tensors_[t]); });
    });
    if (freeing == users.end()) return;
    precedences_.expect(precedences_.last_parts(users), completion_of(*freeing), {Claim::Kind::freed, t});
  }

  /// One witness for each rank.
  Expected<void> check_ranks() const {
    const int ranks = program_.pipeline().ranks();
    std::vector<bool> seen(as_size(ranks), false);
    for (const MemoryWitness& witness : certificate_.memory) {
      if (!witness.rank.valid() || witness.rank.value() >= ranks) {
        return refuse("memory of rank ", witness.rank, ", which is not there");
      }
      if (seen[witness.rank.index()]) return refuse("memory of rank ", witness.rank, " twice");
      seen[witness.rank.index()] = true;
    }
    const auto missing = std::ranges::find(seen, false);
    if (missing == seen.end()) return {};
    return refuse("no memory of rank ", missing - seen.begin());
  }

  /// Bytes handed from tensor to tensor along reuses make chains whose members are never there together; what
  /// no reuse hands on counts once for each chain.
  Expected<void> check(const MemoryWitness& witness) {
    Bytes needed = 0;
    for (auto t = first_of(witness.rank); t < tensors_.size() && tensors_[t].rank == witness.rank; ++t)
      needed = checked_add(needed, sizes_[t]);
    for (const Reuse& reuse : witness.reuse) {
      PPSIM_RETURN_IF_ERROR(check(witness.rank, reuse));
      needed -= reuse.bytes;
    }
    if (witness.bytes >= needed) return {};
    return refuse("rank ", witness.rank, ": a bound of ", witness.bytes, " bytes, but sizes less reuse are ",
                  needed);
  }

  [[nodiscard]] std::uint32_t first_of(RankId rank) const {
    const auto at =
        std::ranges::partition_point(tensors_, [&](const Tensor& tensor) { return tensor.rank < rank; });
    return static_cast<std::uint32_t>(at - tensors_.begin());
  }

  Expected<void> check(RankId rank, const Reuse& reuse) {
    for (const std::uint32_t tensor : {reuse.earlier, reuse.later}) {
      if (tensor >= tensors_.size() || tensors_[tensor].rank != rank) {
        return refuse("rank ", rank, ": tensor ", tensor, " is not on the rank");
      }
    }
    if (reuse.bytes < 0) return refuse("rank ", rank, ": a reuse of ", reuse.bytes, " bytes");
    PPSIM_RETURN_IF_ERROR(add(given_, reuse.earlier, reuse.bytes));
    PPSIM_RETURN_IF_ERROR(add(taken_, reuse.later, reuse.bytes));
    return check_free_before(reuse.earlier, reuse.later);
  }

  /// Each tensor gives at most its size, and takes at most that.
  Expected<void> add(std::vector<Bytes>& sums, std::uint32_t tensor, Bytes bytes) {
    if (bytes > sizes_[tensor] - sums[tensor]) {
      return refuse("rank ", tensors_[tensor].rank, ": more bytes of tensor ", tensor,
                    " are reused than its ", sizes_[tensor]);
    }
    sums[tensor] += bytes;
    return {};
  }

  /// All users of `earlier` are complete before any writer of `later` starts.
  Expected<void> check_free_before(std::uint32_t earlier, std::uint32_t later) {
    const Claim claim{Claim::Kind::reuse, earlier, later};
    if (tensors_[earlier].to_end || tensors_[later].from_start) return refuse_claim(claim);
    const Instructions writers = uses_.table.writers_of(tensors_[later]);
    const auto& used = precedences_.last_parts(uses_.table.users_of(tensors_[earlier]));
    if (writers.size() > 1) {
      const auto [common, fresh] = before_any_.try_emplace(later);
      if (fresh) common->second = precedences_.before_any(writers);
      const OrderClock clock(common->second);
      if (std::ranges::all_of(used, [&](const auto& last) { return last.is_over(clock); })) return {};
    }
    for (const InstructionId writer : writers) precedences_.expect(used, start_of(writer), claim);
    return {};
  }

  const Certificate& certificate_;
  const Program& program_;
  Precedences precedences_;
  TensorUses uses_;
  const std::vector<Tensor>& tensors_;
  std::vector<Bytes> sizes_;
  std::vector<Bytes> given_;
  std::vector<Bytes> taken_;
  std::unordered_map<std::uint32_t, std::vector<std::int32_t>> before_any_;  ///< of tensors of many writers
};

}  // namespace

Expected<void> check_certificate_tensors(const Certificate& certificate, const Program& program,
                                         const ExecutionGraph& graph, const SizeTable* sizes) {
  TensorCheck check(certificate, program, graph);
  if (certificate.claims(kTensorUse)) {
    PPSIM_RETURN_IF_ERROR(check.check_use());
  }
  if (certificate.claims(kMemory)) {
    PPSIM_RETURN_IF_ERROR(check.check_memory(*sizes));
  }
  return check.check_precedences();
}

}  // namespace ppsim

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "closure.hpp"
#include "lifetimes.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/verifier/memory/memory.hpp"
#include "rank_clocks.hpp"
#include "worst_case.hpp"

namespace ppsim::verifier {
namespace {

/// Calls work(0) to work(count - 1), on at most so many threads and never more than there are cores, the
/// calling one included. Errors: what one call throws, when the calls that had begun are done; others do not
/// begin. Order: none among the calls.
template <class Work>
void in_parallel(std::size_t count, std::size_t max_threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      throw;
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> others;
  for (std::size_t t = 1; t < std::min({count, max_threads, cores}); ++t)
    others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

/// Branch and bound over what the relaxation leaves open: which of several writers comes first and which of
/// several users last. A tensor is live if and only if it is so for some choice of the two.
class WorstCaseSearch {
 public:
  WorstCaseSearch(const std::vector<Lifetime>& lifetimes, std::size_t tracks, std::size_t limit,
                  const Limits& limits)
      : lifetimes_(lifetimes), tracks_(tracks), limit_(limit), limits_(limits), best_moment_(tracks, 0) {
    best_ = need(best_moment_);
  }

  /// Returns: whether the search ended within the limit.
  bool run(const Closure& root) { return branch(lifetimes_, root); }
  [[nodiscard]] Bytes bytes() const { return best_; }
  [[nodiscard]] const Clock& moment() const { return best_moment_; }

 private:
  [[nodiscard]] Bytes need(ClockView moment) const {
    Bytes bytes = 0;
    for (const Lifetime& lifetime : lifetimes_) bytes += lifetime.is_live(moment) ? lifetime.bytes : 0;
    return bytes;
  }

  bool branch(const std::vector<Lifetime>& chosen, const Closure& closure) {
    const Bytes found = need(closure.moment);
    if (found > best_) {
      best_ = found;
      best_moment_ = closure.moment;
    }
    if (closure.bytes <= best_) return true;
    const std::size_t open = overcounted(closure);
    for (const Lifetime& choice : choices(chosen[open])) {
      if (++cuts_ > limit_) return false;
      std::vector<Lifetime> narrowed = chosen;
      narrowed[open] = choice;
      if (!branch(narrowed, heaviest_closure(narrowed, tracks_, limits_))) return false;
    }
    return true;
  }

  /// A tensor that the relaxation counts although it is not live.
  [[nodiscard]] std::size_t overcounted(const Closure& closure) const {
    for (std::size_t i = 0; i < lifetimes_.size(); ++i) {
      if (closure.counted[i] != 0 && !lifetimes_[i].is_live(closure.moment)) return i;
    }
    PPSIM_CHECK(false, "the relaxation exceeds what is live without reason");
  }

  /// The lifetime with each one of its births and each one of its deaths.
  [[nodiscard]] static std::vector<Lifetime> choices(const Lifetime& lifetime) {
    std::vector<Lifetime> result;
    for (const Birth& birth : lifetime.births) {
      if (lifetime.deaths.empty()) result.push_back({lifetime.tensor, lifetime.bytes, {birth}, {}});
      for (const Clock& death : lifetime.deaths) {
        result.push_back({lifetime.tensor, lifetime.bytes, {birth}, {death}});
      }
    }
    return result;
  }

  const std::vector<Lifetime>& lifetimes_;
  std::size_t tracks_;
  std::size_t limit_;
  const Limits& limits_;
  std::size_t cuts_ = 0;
  Bytes best_ = 0;
  Clock best_moment_;
};

/// The starts that create the tensors of `moment`; their predecessors are within it.
std::vector<InstructionId> starts_of(const std::vector<Lifetime>& lifetimes, ClockView moment) {
  std::vector<InstructionId> starts;
  for (const Lifetime& lifetime : lifetimes) {
    if (!lifetime.is_live(moment)) continue;
    const auto birth =
        std::ranges::find_if(lifetime.births, [&](const Birth& b) { return is_within(b.after, moment); });
    if (birth->writer.valid()) starts.push_back(birth->writer);
  }
  sort_unique(starts);
  return starts;
}

/// The worst cases of the ranks of one Program.
class RankCases {
 public:
  RankCases(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes, const Limits& limits,
            std::size_t branch_limit)
      : analyzed_(analyzed),
        sizes_(sizes),
        limits_(limits),
        branch_limit_(branch_limit),
        plan_(analyzed.guaranteed_graph(), analyzed.order()) {}

  /// Errors: throws LimitReached.
  [[nodiscard]] std::optional<WorstCase> of(RankId rank) const;

 private:
  [[nodiscard]] RankClocks clocks_of(RankId rank, Receipts receipts) const {
    return {{analyzed_, plan_, rank, receipts}, limits_};
  }
  [[nodiscard]] std::vector<Lifetime> lifetimes(const RankClocks& clocks) const {
    return lifetimes_of(analyzed_, sizes_, clocks, limits_);
  }

  const AnalyzedProgram& analyzed_;
  const std::vector<Bytes>& sizes_;
  const Limits& limits_;
  std::size_t branch_limit_;
  ClockPlan plan_;
};

std::optional<WorstCase> RankCases::of(RankId rank) const {
  const TransportCapabilities& kept = analyzed_.guaranteed_graph().capabilities;
  const bool lags = kept.receipts_lag();
  const RankClocks clocks = clocks_of(rank, lags ? Receipts::lag : Receipts::at_once);
  const std::vector<Lifetime> lifetimes = this->lifetimes(clocks);
  Closure root = heaviest_closure(lifetimes, clocks.tracks(), limits_);
  WorstCaseSearch search(lifetimes, clocks.tracks(), branch_limit_, limits_);
  if (!search.run(root)) return std::nullopt;
  WorstCase worst;
  worst.rank = rank;
  worst.bytes = search.bytes();
  worst.reached = starts_of(lifetimes, search.moment());
  Clock moment(clocks.tracks(), 0);
  for (const InstructionId id : worst.reached) merge_clock(moment, clocks.before_start(id));
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.is_live(moment)) worst.live.push_back(lifetime.tensor);
  }
  if (kept.credits && !lags) {
    // A certificate is checked with HappensBefore, so its witness may rest on nothing else.
    const RankClocks lagging = clocks_of(rank, Receipts::lag);
    root = heaviest_closure(this->lifetimes(lagging), lagging.tracks(), limits_);
  }
  worst.witness = {rank, root.bytes, std::move(root.reuse)};
  return worst;
}

}  // namespace

std::optional<WorstCase> worst_case_memory(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes,
                                           RankId rank, std::size_t branch_limit) {
  const Limits unlimited;
  return RankCases(analyzed, sizes, unlimited, branch_limit).of(rank);
}

std::vector<std::optional<WorstCase>> worst_cases_within(const Limits& limits,
                                                         const AnalyzedProgram& analyzed,
                                                         const std::vector<Bytes>& sizes,
                                                         std::span<const RankId> ranks) {
  constexpr std::size_t kWorthAThread = 50'000;  // instructions that clocks pass through
  const std::size_t threads =
      limits.memory_limited() ? 1 : 1 + ranks.size() * analyzed.program().size() / kWorthAThread;
  limits.need(1, ClockPlan::bytes_of(analyzed.guaranteed_graph()));
  const RankCases cases(analyzed, sizes, limits, kBranchLimit);
  std::vector<std::optional<WorstCase>> worst(ranks.size());
  in_parallel(ranks.size(), threads, [&](std::size_t i) { worst[i] = cases.of(ranks[i]); });
  return worst;
}

}  // namespace ppsim::verifier

#include <algorithm>

#include "memory/worst_case.hpp"
#include "ppsim/core/ir/check.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// The run that reaches the worst moment, counted again from the tensors alone.
MemoryOverrun overrun(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes,
                      const WorstCase& worst, Bytes limit) {
  MemoryOverrun result{.rank = worst.rank,
                       .bytes = worst.bytes,
                       .limit = limit,
                       .live = {},
                       .firing_order = firing_order(analyzed.guaranteed_graph(), analyzed.order(), worst)};
  for (const std::uint32_t tensor : worst.live) result.live.push_back(analyzed.tensors().tensors[tensor]);
  PPSIM_CHECK(memory_at(analyzed.tensors(), sizes, worst.rank, result.firing_order) == worst.bytes,
              "a run to the worst moment needs as much memory as claimed");
  return result;
}

/// Where a residency limit holds fewer runs are possible, so the figures are upper bounds.
Answer judge(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes,
             const std::vector<WorstCase>& worst, std::optional<Bytes> limit) {
  Answer answer{Proved{}, "flow"};
  const bool limited = analyzed.capabilities().residency.has_value();
  if (limited) answer.notes.emplace_back("upper bound: the residency limit is left out");
  if (!limit) return answer;
  const auto most = std::ranges::max_element(worst, {}, &WorstCase::bytes);
  if (most->bytes <= *limit) return answer;
  if (limited) {
    answer.verdict =
        Unknown{"the upper bound of " + std::to_string(most->bytes) + " bytes is over the limit"};
  } else {
    answer.verdict = Refuted{overrun(analyzed, sizes, *most, *limit)};
  }
  return answer;
}

}  // namespace

Answer check_memory(const AnalyzedProgram& analyzed, const VerifyOptions& options, const Limits& limits,
                    std::vector<WorstCase>& worst) try {
  if (!options.sizes) return {Unknown{"no sizes are given"}, "flow"};
  if (!analyzed.finishes()) return {Unknown{why_stuck(analyzed)}, "flow"};
  const std::vector<Bytes> sizes = tensor_sizes(analyzed.tensors(), *options.sizes);
  const auto ids = analyzed.program().pipeline().rank_ids();
  const std::vector<RankId> ranks(ids.begin(), ids.end());
  for (std::optional<WorstCase>& of_rank : worst_cases_within(limits, analyzed, sizes, ranks)) {
    if (!of_rank)
      return {Unknown{"too many unordered last users on rank " + std::to_string(worst.size())}, "flow"};
    worst.push_back(std::move(*of_rank));
  }
  return judge(analyzed, sizes, worst, options.memory_limit);
} catch (const LimitReached& limit) {
  return {Unknown{limit.what()}, "flow"};
}

}  // namespace ppsim::verifier

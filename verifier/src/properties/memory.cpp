#include <algorithm>

#include "memory/worst_case.hpp"
#include "ppsim/core/ir/check.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// The run that reaches the worst moment, counted again from the tensors alone.
MemoryOverrun overrun(const MemoryQuestion& memory, const WorstCase& worst, Bytes limit) {
  MemoryOverrun result{worst.rank, worst.bytes, limit, worst.live,
                       firing_order(memory.graph, memory.order, worst)};
  PPSIM_CHECK(memory_at(memory, worst.rank, result.firing_order) == worst.bytes,
              "a run to the worst moment needs as much memory as claimed");
  return result;
}

/// Where a residency limit holds fewer runs are possible, so the figures are upper bounds.
Answer judge(const Question& question, const MemoryQuestion& memory, const std::vector<WorstCase>& worst) {
  Answer answer{Proved{}, "flow"};
  const bool limited = question.options.capabilities.residency.has_value();
  if (limited) answer.notes.emplace_back("upper bound: the residency limit is left out");
  if (!question.options.memory_limit) return answer;
  const auto most = std::ranges::max_element(worst, {}, &WorstCase::bytes);
  const Bytes limit = *question.options.memory_limit;
  if (most->bytes <= limit) return answer;
  if (limited) {
    answer.verdict =
        Unknown{"the upper bound of " + std::to_string(most->bytes) + " bytes is over the limit"};
  } else {
    answer.verdict = Refuted{overrun(memory, *most, limit)};
  }
  return answer;
}

}  // namespace

Answer check_memory(const Question& question, std::vector<WorstCase>& worst) try {
  if (!question.options.sizes) return {Unknown{"no sizes are given"}, "flow"};
  if (!question.analyzed.finishes()) return {Unknown{question.why_stuck()}, "flow"};
  const std::vector<Bytes> sizes = tensor_sizes(question.analyzed.tensors(), *question.options.sizes);
  const MemoryQuestion memory{question.analyzed, sizes};
  std::vector<RankId> ranks;
  for (int r = 0; r < question.program.pipeline().ranks(); ++r) ranks.emplace_back(r);
  for (std::optional<WorstCase>& of_rank : worst_cases_within(question.limits(), memory, ranks)) {
    if (!of_rank)
      return {Unknown{"too many unordered last users on rank " + std::to_string(worst.size())}, "flow"};
    worst.push_back(std::move(*of_rank));
  }
  return judge(question, memory, worst);
} catch (const LimitReached& limit) {
  return {Unknown{limit.what()}, "flow"};
}

}  // namespace ppsim::verifier

#include "collective_calls.hpp"

#include <algorithm>

#include "executor/payload.hpp"

namespace ppsim::gpu_backend {

void CollectiveCalls::begin_step() {
  matches_.assign(program_.communicators().size(), Matches());
  for (Matches& matches : matches_) matches.calls.resize(as_size(program_.pipeline().ranks()));
}

std::optional<std::vector<CollectiveCall>> CollectiveCalls::join(const CollectiveCall& call) {
  Matches& matches = matches_[call.communicator.index()];
  const std::size_t nth = matches.calls[call.rank.index()]++ - matches.met;
  if (nth >= matches.open.size()) matches.open.resize(nth + 1);
  matches.open[nth].push_back(call);
  if (matches.open[nth].size() < program_.communicator(call.communicator).members.size()) return std::nullopt;
  // Members join in order, so the first match is the first to be complete.
  std::vector<CollectiveCall> match = std::move(matches.open.front());
  matches.open.pop_front();
  ++matches.met;
  std::ranges::sort(match, {}, &CollectiveCall::rank);
  return match;
}

void complete_match(const Program& program, const CpuStageModel& model, std::span<const CollectiveCall> match,
                    CompletionSink& sink) {
  reduce(program, model, match);
  std::vector<InstructionId> members;
  for (const CollectiveCall& member : match) members.push_back(member.instruction);
  sink.complete(members);
}

}  // namespace ppsim::gpu_backend

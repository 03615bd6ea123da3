#include "ppsim/core/execution/timed_trace.hpp"

#include <algorithm>
#include <ostream>
#include <string>

#include "io/csv_cells.hpp"
#include "ppsim/core/execution/tensor_life.hpp"
#include "ppsim/core/io/text.hpp"

namespace ppsim {
namespace {

struct MemoryChange {
  Instant at;
  Bytes bytes = 0;
};

MemoryProfile profile(std::vector<MemoryChange> changes, Bytes resident) {
  std::ranges::sort(changes, {}, &MemoryChange::at);
  MemoryProfile result{.peak_bytes = resident, .peak_at = {}, .points = {{Instant{}, resident}}};
  Bytes bytes = resident;
  for (std::size_t i = 0; i < changes.size();) {
    const Instant at = changes[i].at;
    // Frees and allocations of one delta cycle are one change: the cycle before shows what both need at once.
    for (; i < changes.size() && changes[i].at == at; ++i) bytes = checked_add(bytes, changes[i].bytes);
    if (at == result.points.back().at) {
      result.points.back().bytes = bytes;
    } else if (bytes != result.points.back().bytes) {
      result.points.push_back({at, bytes});
    }
    if (bytes > result.peak_bytes) {
      result.peak_bytes = bytes;
      result.peak_at = at;
    }
  }
  return result;
}

}  // namespace

std::string queues_text(const Program& program, InstructionId id) {
  std::string text;
  for (const int queue : program.queues_of(id)) {
    if (!text.empty()) text += '+';
    text += program.queue_name(queue);
  }
  return text;
}

void write_trace_csv(std::ostream& out, const Program& program, const TimedTrace& trace) {
  out << "rank,queue,index,instruction,start_ns,end_ns\n";
  for (const RankId rank : program.pipeline().rank_ids()) {
    for (const InstructionId id : program.ids_of(rank)) {
      const Span& span = trace.spans[id];
      out << rank << ',' << csv_cell(queues_text(program, id)) << ','
          << id.value() - program.first(rank).value() << ',' << csv_cell(actions_text(program, id)) << ','
          << span.start.time << ',' << span.end.time << '\n';
    }
  }
}

IdVector<RankId, MemoryProfile> replay_memory(const Program& program, const TimedTrace& trace,
                                              const TensorTable& table, const std::vector<Bytes>& sizes) {
  const auto ranks = as_size(program.pipeline().ranks());
  IdVector<RankId, std::vector<MemoryChange>> changes(ranks);
  IdVector<RankId, Bytes> resident(ranks, 0);
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& tensor = table.tensors[i];
    if (sizes[i] == 0) continue;
    const Instant from = allocation(tensor, trace, table);
    if (!happened(from)) continue;
    if (tensor.from_start) {
      resident[tensor.rank] = checked_add(resident[tensor.rank], sizes[i]);
    } else {
      changes[tensor.rank].push_back({from, sizes[i]});
    }
    const Instant to = release(tensor, trace, table);
    if (happened(to)) changes[tensor.rank].push_back({to, -sizes[i]});
  }
  IdVector<RankId, MemoryProfile> profiles(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    profiles[rank] = profile(std::move(changes[rank]), resident[rank]);
  }
  return profiles;
}

}  // namespace ppsim

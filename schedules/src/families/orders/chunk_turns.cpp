#include "chunk_turns.hpp"

#include <algorithm>

namespace ppsim::schedules {
namespace {

/// The cells of one rank.
class Row {
 public:
  Row(ScheduleBuilder& builder, const ChunkOrder& order, RankId rank)
      : builder_(builder), order_(order), rank_(rank.value()) {}

  void forward(const Turn& turn) { add(OpKind::forward, turn.chunk, turn.microbatch); }
  void backward(const Turn& turn) {
    add(order_.splits_backward ? OpKind::backward_input : OpKind::backward, backward_chunk(turn),
        turn.microbatch);
  }
  void weight(const Turn& turn) {
    if (order_.splits_backward) add(OpKind::backward_weight, backward_chunk(turn), turn.microbatch);
  }

 private:
  [[nodiscard]] int backward_chunk(const Turn& turn) const { return order_.chunks - 1 - turn.chunk; }
  void add(OpKind kind, int chunk, int microbatch) {
    if (microbatch >= order_.microbatches) return;
    builder_.add(kind, StageId(chunk * order_.ranks + rank_), MicrobatchId(microbatch));
  }

  ScheduleBuilder& builder_;
  const ChunkOrder& order_;
  int rank_;
};

}  // namespace

std::vector<int> even_groups(int ranks, int microbatches) {
  const int count = std::max(1, microbatches / ranks);
  std::vector<int> groups(as_size(count), microbatches / count);
  for (int i = 0; i < microbatches % count; ++i) ++groups[as_size(i)];
  return groups;
}

std::vector<int> groups_of(int size, int ranks, int microbatches) {
  std::vector<int> groups(as_size(microbatches / size), size);
  const int rest = microbatches % size;
  if (rest >= ranks) {
    groups.push_back(rest);
  } else {
    groups.back() += rest;
  }
  return groups;
}

std::vector<Turn> turns_of(const std::vector<int>& groups, int chunks) {
  std::vector<Turn> turns;
  int first = 0;
  for (const int size : groups) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = 0; i < size; ++i) turns.push_back({chunk, first + i});
    }
    first += size;
  }
  return turns;
}

void add_row(ScheduleBuilder& builder, const ChunkOrder& order, RankId rank, int warmup) {
  Row row(builder, order, rank);
  const std::vector<Turn>& turns = order.turns;
  const std::size_t before = std::min(as_size(warmup), turns.size());
  const auto delay = as_size(order.weight_delay);
  for (std::size_t i = 0; i < before; ++i) row.forward(turns[i]);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (before + i < turns.size()) row.forward(turns[before + i]);
    row.backward(turns[i]);
    if (i >= delay) row.weight(turns[i - delay]);
  }
  for (std::size_t i = turns.size() - std::min(delay, turns.size()); i < turns.size(); ++i) {
    row.weight(turns[i]);
  }
}

}  // namespace ppsim::schedules

#include "order_exchanges.hpp"

namespace ppsim::lowering {
namespace {

constexpr std::int32_t kNone = -1;

class RowOrder {
 public:
  RowOrder(const Pipeline& pipeline, RankId rank) : pipeline_(pipeline), rank_(rank) {}

  std::vector<AfterEdge> run(std::span<const Cell> row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].idle()) continue;
      const Action& action = row[i].actions().front();
      const auto place = static_cast<std::int32_t>(i);
      if (names_peer_rank(action.kind)) exchange(place, action);
      if (info(action.kind).resource == Resource::compute) compute(place);
    }
    return std::move(edges_);
  }

 private:
  void wait(std::int32_t later, std::int32_t earlier) {
    if (earlier != kNone) edges_.push_back({later, earlier});
  }

  void exchange(std::int32_t place, const Action& action) {
    wait(place, last_exchange_);
    last_exchange_ = place;
    if (pipeline_.rank_of(action.stage()) != rank_) return;
    if (is_receive(action.kind)) wait(place, last_compute_);
    if (is_send(action.kind)) leaving_ = place;
  }

  void compute(std::int32_t place) {
    wait(place, leaving_);
    leaving_ = kNone;
    last_compute_ = place;
  }

  const Pipeline& pipeline_;
  RankId rank_;
  std::int32_t last_exchange_ = kNone;
  std::int32_t last_compute_ = kNone;
  std::int32_t leaving_ = kNone;  ///< a SEND_A of the owner with no computation after it yet
  std::vector<AfterEdge> edges_;
};

}  // namespace

void order_exchanges(const Pipeline& pipeline, CellRows& rows) {
  for (const RankId rank : rows.rank_ids()) {
    if (rows.kinds(rank).any_of(names_peer_rank))
      rows.add_after(rank, RowOrder(pipeline, rank).run(rows[rank]));
  }
}

}  // namespace ppsim::lowering

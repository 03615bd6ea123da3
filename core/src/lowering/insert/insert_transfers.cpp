#include "insert_transfers.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <utility>

#include "lowering/order/walk.hpp"

namespace ppsim::lowering {
namespace {

/// Calls take(item) for every item that it is given, in that order: on a thread of its own, so that who gives
/// goes on meanwhile and waits only where many items are not taken yet, or at once.
template <class Item>
class Follower {
 public:
  Follower(std::function<void(Item)> take, bool on_own_thread) : take_(std::move(take)) {
    if (!on_own_thread) return;
    try {
      thread_ = std::async(std::launch::async, [this] { run(); });
    } catch (const std::system_error&) {  // no thread is to be had: at once, then
    }
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() { close(); }

  void give(Item item) {
    if (!thread_.valid()) return take_(std::move(item));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_ || items_.size() < kMaxItems; });
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  /// Waits until all items are taken. Errors: what `take` throws.
  void finish() {
    close();
    if (thread_.valid()) thread_.get();
  }

 private:
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

  /// Runs until it is closed, or `take` throws: finish() throws that on, and what is given afterwards is
  /// dropped.
  void run() {
    try {
      while (take_next()) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
      throw;
    }
  }

  /// False where there are no more.
  bool take_next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_closed_ || !items_.empty(); });
    if (items_.empty()) return false;
    Item item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    lock.unlock();
    take_(std::move(item));
    return true;
  }

  static constexpr std::size_t kMaxItems = 16;

  std::function<void(Item)> take_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_closed_ = false;
  bool is_over_ = false;
  std::future<void> thread_;  ///< ends before the rest does: it is the last member
};

}  // namespace

TransferInserter::TransferInserter(const Pipeline& pipeline, const CellRows& rows, bool keep_times)
    : rows_(rows), transfers_(pipeline), lines_(as_size(rows.ranks())), line_of_cell_(as_size(rows.ranks())) {
  const IdVector<RankId, std::size_t> counts = line_counts(rows, flows_of(transfers_, rows));
  for (const RankId rank : lines_.ids()) writers_.push_back({lines_[rank], counts[rank], keep_times});
}

void TransferInserter::add(const EarliestTimes::Item& item) {
  const std::span<const Action> actions = rows_[item.rank][as_size(item.position)].actions();
  LineWriter& own = writers_[item.rank];
  if (actions.size() == 2) {
    own.add_pair(actions[0], actions[1], item.start);
  } else {
    own.add(actions[0], item.start);
  }
  if (!rows_.after(item.rank).empty()) {
    std::vector<std::int32_t>& lines = line_of_cell_[item.rank];
    lines.resize(rows_[item.rank].size(), -1);
    lines[as_size(item.position)] = static_cast<std::int32_t>(own.size()) - 1;
  }
  for (const Action& action : actions) {
    transfers_.for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
      own.add(send, item.end);
      writers_[receiver].add(receive, item.end);
    });
  }
}

LineRows TransferInserter::finish() && {
  for (LineWriter& writer : writers_) writer.finish();
  for (const RankId rank : rows_.rank_ids()) {
    const std::vector<std::int32_t>& lines = line_of_cell_[rank];
    for (const AfterEdge& edge : rows_.after(rank)) {
      lines_[rank].after.push_back({lines[as_size(edge.later)], lines[as_size(edge.earlier)]});
    }
  }
  return std::move(lines_);
}

Expected<LineRows> insert_transfers(const Pipeline& pipeline, const CellRows& rows, const CostTable* costs) {
  TransferInserter inserter(pipeline, rows, costs != nullptr);
  Follower<WalkItems> follower(
      [&](const WalkItems& items) {
        constexpr std::size_t kAhead = 24;  // items whose cells come from memory meanwhile
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (i + kAhead < items.size()) inserter.expect(items[i + kAhead]);
          inserter.add(items[i]);
        }
      },
      rows.ranges().size() > 1);
  const auto walked = walk(pipeline, rows, costs, [&](WalkItems items) { follower.give(std::move(items)); });
  follower.finish();
  PPSIM_RETURN_IF_ERROR(walked);
  return std::move(inserter).finish();
}

}  // namespace ppsim::lowering

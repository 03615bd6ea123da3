#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

namespace ppsim::lowering {

/// Calls take(item) for every item that it is given, in that order: on a thread of its own, so that who gives
/// goes on meanwhile and waits only where many items are not taken yet, or at once.
template <class Item>
class Follower {
 public:
  Follower(std::function<void(Item)> take, bool on_own_thread) : take_(std::move(take)) {
    if (on_own_thread) thread_ = std::async(std::launch::async, [this] { run(); });
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

  /// Until it is closed, or `take` throws: finish() says that, and whatever is given then is for nothing.
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

}  // namespace ppsim::lowering

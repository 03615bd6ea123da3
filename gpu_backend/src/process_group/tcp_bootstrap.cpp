#include "tcp_bootstrap.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "bytes.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr std::chrono::seconds kAnswer(4);  // time that process 0 has to stop all

Nanoseconds now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string error_bytes(const Error& error) {
  return ByteWriter().put(error.code).put_text(error.message).take();
}

Error error_from(ByteReader& reader) {
  const auto code = reader.get<ErrorCode>();
  return {code, std::string(reader.get_text())};
}

double seconds_of(Timeout timeout) { return std::chrono::duration<double>(*timeout).count(); }

/// The error of processes that did not come.
Error missing_processes(const std::vector<int>& processes, double seconds) {
  std::ostringstream text;
  text << (processes.size() == 1 ? "process " : "processes ");
  for (std::size_t i = 0; i < processes.size(); ++i) text << (i == 0 ? "" : ", ") << processes[i];
  text << " did not come where all processes meet: the others have waited for " << seconds << " s";
  return {ErrorCode::io, text.str()};
}

std::string texts_bytes(const std::vector<std::string>& texts) {
  ByteWriter writer;
  writer.put(texts.size());
  for (const std::string& text : texts) writer.put_text(text);
  return writer.take();
}

std::vector<std::string> texts_from(std::string_view bytes) {
  ByteReader reader(bytes);
  std::vector<std::string> texts(reader.get<std::size_t>());
  for (std::string& text : texts) text = reader.get_text();
  return texts;
}

}  // namespace

TcpBootstrap::TcpBootstrap(const Membership& self, std::map<int, Socket>&& sockets)
    : process_(self.process), size_(self.size), local_process_(self.local_process) {
  for (auto& [process, socket] : sockets) peers_[process].socket = std::move(socket);
  for (auto& [process, peer] : peers_) {
    peer.reader = std::thread([this, process = process, &peer = peer] { serve(process, peer); });
  }
}

TcpBootstrap::~TcpBootstrap() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  for (auto& [process, peer] : peers_) {
    send(peer, FrameKind::bye, 0, {});
    ::shutdown(peer.socket.descriptor(), SHUT_RD);  // ends the reader; messages already sent still arrive
  }
  for (auto& [process, peer] : peers_) peer.reader.join();
}

void TcpBootstrap::send(Peer& peer, FrameKind kind, std::uint32_t epoch, std::string bytes) {
  const std::lock_guard lock(peer.sending);
  // The reader hears of a broken connection, too, and it is the one to say so.
  static_cast<void>(send_frame(peer.socket, {kind, epoch, std::move(bytes)}));
}

void TcpBootstrap::serve(int process, Peer& peer) {
  try {
    while (auto frame = receive_frame(peer.socket)) receive(process, peer, *std::move(frame));
  } catch (const std::exception&) {
    // Bytes that are not ours, or no memory for them: as good as no connection.
  }
  end_of(process, peer);
}

void TcpBootstrap::receive(int process, Peer& peer, Frame frame) {
  const std::int64_t arrived = now_ns();
  ByteReader reader(frame.bytes);
  switch (frame.kind) {
    case FrameKind::note:
      return hear_note(process, frame.bytes);
    case FrameKind::ping:
      return send(peer, FrameKind::pong, 0, ByteWriter().put(arrived).take());
    case FrameKind::stop:
      return hear_stop(reader);
    case FrameKind::abort:
      return stop_all(error_from(reader), frame.epoch);
    case FrameKind::late:
      return stop_without(missing(), frame.epoch, reader.get<double>());
    case FrameKind::given_up:
    case FrameKind::part:
    case FrameKind::all:
    case FrameKind::at_work:
    case FrameKind::pong:
    case FrameKind::bye:
      break;
    case FrameKind::hello:
    case FrameKind::welcome:
      return;
  }
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::pong) pong_ = {reader.get<Nanoseconds>(), arrived};
  if (frame.kind == FrameKind::at_work) at_work_ = Clock::now();
  if (frame.kind == FrameKind::bye) peer.left = true;
  if (frame.kind == FrameKind::given_up) count_as_gone(process_);
  if (frame.kind == FrameKind::part && frame.epoch == epoch_) peer.parts.push_back(std::move(frame.bytes));
  if (frame.kind == FrameKind::all && frame.epoch == epoch_) all_.push_back(texts_from(frame.bytes));
  changed_.notify_all();
}

void TcpBootstrap::end_of(int process, Peer& peer) {
  {
    const std::lock_guard lock(mutex_);
    if (leaving_ || peer.left || peer.lost) return;
    lose(process, peer);
  }
  stop_all({ErrorCode::io,
            "process " + std::to_string(process) + " is gone: it was killed, or cannot be reached any more"},
           std::nullopt);
}

/// Requires: the lock; a stop, which those who wait for the process wait for, too, before or after it.
void TcpBootstrap::lose(int process, Peer& peer) {
  peer.lost = true;
  count_as_gone(process);
}

/// Requires: the lock.
void TcpBootstrap::count_as_gone(int process) {
  const auto at = std::ranges::lower_bound(gone_, process);
  if (at == gone_.end() || *at != process) gone_.insert(at, process);
}

void TcpBootstrap::give_up(int process) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(process);
  if (!peer.left && !peer.lost) lose(process, peer);
  changed_.notify_all();
}

/// Who has not come where all meet, as process 0 knows it.
std::vector<int> TcpBootstrap::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> result;
  if (!awaited_) result.push_back(0);
  for (const auto& [process, peer] : peers_) {
    if (peer.parts.empty() && process >= awaited_.value_or(0)) result.push_back(process);
  }
  return result;
}

/// As process 0, stops all because of some that count as gone from now on; nobody: their time has not passed.
void TcpBootstrap::stop_without(const std::vector<int>& processes, std::uint32_t epoch, double seconds) {
  {
    const std::lock_guard lock(mutex_);
    if (epoch != epoch_ || processes.empty()) return;
    if (processes.front() == process_) count_as_gone(process_);
  }
  for (const int process : processes) {
    if (process != process_) give_up(process);
  }
  stop_all(missing_processes(processes, seconds), epoch);
}

/// A stop by process 0.
void TcpBootstrap::hear_stop(ByteReader& reader) {
  const Error error = error_from(reader);
  if (reader.get<bool>()) give_up(0);
  static_cast<void>(set_stop(error, std::nullopt));
}

Error TcpBootstrap::absent(int process) const {
  return {ErrorCode::io, "process " + std::to_string(process) + " has left the run before its end"};
}

void TcpBootstrap::hear_note(int process, std::string_view note) {
  std::optional<Error> error;
  {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) error = listener_->on_note(process, note);
  }
  if (error) stop(*error);
}

void TcpBootstrap::note(const std::string& note) {
  if (process_ == 0) return hear_note(0, note);
  send(peers_.at(0), FrameKind::note, 0, note);
}

void TcpBootstrap::listen(BootstrapListener* listener) {
  const std::lock_guard lock(listening_);
  listener_ = listener;
  if (listener == nullptr) return;
  std::unique_lock stopping(mutex_);
  const std::optional<Error> stopped = stopped_;  // another process may have failed before this one listened
  stopping.unlock();
  if (stopped) listener->on_stop(*stopped);
}

void TcpBootstrap::stop(const Error& error) {
  std::unique_lock lock(mutex_);
  if (stopped_) return;
  const std::uint32_t epoch = epoch_;
  lock.unlock();
  if (process_ == 0) return stop_all(error, epoch);
  send(peers_.at(0), FrameKind::abort, epoch, error_bytes(error));
  lock.lock();
  const bool answered =
      changed_.wait_for(lock, kAnswer, [&] { return stopped_.has_value() || peers_.at(0).left; });
  if (stopped_) return;
  lock.unlock();
  if (!answered) {
    give_up(0);
    send(peers_.at(0), FrameKind::given_up, epoch, {});  // for when it wakes
  }
  Error alone = error;  // there is nobody left to tell
  if (!answered) alone.message += "\nprocess 0 did not answer";
  static_cast<void>(set_stop(alone, std::nullopt));
}

/// As process 0, tells everybody; as another one that has lost process 0, only itself.
void TcpBootstrap::stop_all(const Error& error, std::optional<std::uint32_t> epoch) {
  if (!set_stop(error, epoch) || process_ != 0) return;
  const std::vector<int> without = gone();
  const bool leaderless = !without.empty() && without.front() == 0;
  const std::string bytes = error_bytes(error) + ByteWriter().put(leaderless).take();
  for (auto& [process, peer] : peers_) send(peer, FrameKind::stop, 0, bytes);
}

bool TcpBootstrap::set_stop(const Error& error, std::optional<std::uint32_t> epoch) {
  const std::lock_guard telling(listening_);  // whoever listens from now on is told by listen()
  {
    const std::lock_guard lock(mutex_);
    if (epoch && *epoch != epoch_) return false;  // another stop came first
    ++epoch_;
    if (!stopped_) stopped_ = error;  // later errors follow from it
    all_.clear();
    for (auto& [process, peer] : peers_) peer.parts.clear();
    changed_.notify_all();
  }
  if (listener_ != nullptr) listener_->on_stop(error);
  return true;
}

std::vector<int> TcpBootstrap::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

Expected<void> TcpBootstrap::resume() {
  const std::lock_guard lock(mutex_);
  if (!gone_.empty()) return tl::unexpected(*stopped_);
  stopped_.reset();
  return {};
}

void TcpBootstrap::send_heartbeat() {
  for (auto& [process, peer] : peers_) send(peer, FrameKind::at_work, 0, {});
}

bool TcpBootstrap::wait(std::unique_lock<std::mutex>& lock, Timeout timeout,
                        const std::function<bool()>& what) {
  const Clock::time_point begin = Clock::now();
  while (!what()) {
    if (!timeout) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point end = std::max(begin, at_work_) + *timeout;
    if (Clock::now() >= end) return false;
    changed_.wait_until(lock, end);
  }
  return true;
}

Expected<std::vector<std::string>> TcpBootstrap::collect(const std::string& own, Timeout timeout) {
  std::unique_lock lock(mutex_);
  std::vector<std::string> parts = {own};
  for (auto& [process, peer] : peers_) {
    awaited_ = process;
    const auto there = [&, &peer = peer] { return stopped_ || !peer.parts.empty() || peer.left; };
    while (!wait(lock, timeout, there)) {
      const std::uint32_t epoch = epoch_;
      lock.unlock();
      stop_without(missing(), epoch, seconds_of(timeout));
      lock.lock();
    }
    if (stopped_) return tl::unexpected(*stopped_);
    if (peer.parts.empty()) return tl::unexpected(absent(process));
    parts.push_back(std::move(peer.parts.front()));
    peer.parts.pop_front();
  }
  return parts;
}

Expected<std::vector<std::string>> TcpBootstrap::gather(const std::string& bytes, Timeout timeout) {
  std::unique_lock lock(mutex_);
  if (stopped_) return tl::unexpected(*stopped_);
  const std::uint32_t epoch = epoch_;
  lock.unlock();
  if (process_ > 0) {
    send(peers_.at(0), FrameKind::part, epoch, bytes);
    return std::vector<std::string>();
  }
  auto parts = collect(bytes, timeout);
  lock.lock();
  awaited_.reset();
  return parts;
}

Expected<std::vector<std::string>> TcpBootstrap::allgather(const std::string& bytes, Timeout timeout) {
  std::unique_lock lock(mutex_);
  const std::uint32_t epoch = epoch_;
  lock.unlock();
  auto parts = gather(bytes, timeout);
  if (!parts) return parts;
  if (process_ == 0) {
    for (auto& [process, peer] : peers_) send(peer, FrameKind::all, epoch, texts_bytes(*parts));
    return parts;
  }
  Peer& leader = peers_.at(0);
  const auto told = [&] { return stopped_ || !all_.empty() || leader.left; };
  lock.lock();
  if (!wait(lock, timeout, told)) {
    lock.unlock();
    ask_who_is_missing(epoch, seconds_of(timeout));
    lock.lock();
    changed_.wait(lock, told);
  }
  if (stopped_) return tl::unexpected(*stopped_);
  if (all_.empty()) return tl::unexpected(absent(0));
  std::vector<std::string> result = std::move(all_.front());
  all_.pop_front();
  return result;
}

/// As another process than 0, has process 0 say who has not come, or stops without it.
void TcpBootstrap::ask_who_is_missing(std::uint32_t epoch, double seconds) {
  send(peers_.at(0), FrameKind::late, epoch, ByteWriter().put(seconds).take());
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kAnswer, [&] { return stopped_ || !all_.empty() || peers_.at(0).left; }))
    return;
  lock.unlock();
  give_up(0);
  static_cast<void>(set_stop(missing_processes({0}, seconds), epoch));
}

Expected<ClockOffset> TcpBootstrap::offset_of(int process, Peer& peer, Timeout timeout) {
  constexpr int kRounds = 8;  // the quickest counts
  ClockOffset best{0, std::numeric_limits<Nanoseconds>::max()};
  for (int round = 0; round < kRounds; ++round) {
    const Nanoseconds sent = now_ns();
    send(peer, FrameKind::ping, 0, {});
    std::unique_lock lock(mutex_);
    if (!wait(lock, timeout, [&] { return pong_ || stopped_ || peer.left; })) {
      const std::uint32_t epoch = epoch_;
      lock.unlock();
      stop_without({process}, epoch, seconds_of(timeout));
      lock.lock();
    }
    if (stopped_) return tl::unexpected(*stopped_);
    if (!pong_) return make_error(ErrorCode::io, "a process has left while clocks were compared");
    const Nanoseconds half = (pong_->back - sent + 1) / 2;
    if (half < best.uncertainty_ns) best = {pong_->there - sent - half, half};
    pong_.reset();
  }
  return best;
}

Expected<std::vector<ClockOffset>> TcpBootstrap::clock_offsets(Timeout timeout) {
  std::vector<ClockOffset> offsets(1);
  if (process_ != 0) return offsets;
  for (auto& [process, peer] : peers_) {
    PPSIM_ASSIGN_OR_RETURN(const auto offset, offset_of(process, peer, timeout));
    offsets.push_back(offset);
  }
  return offsets;
}

}  // namespace ppsim::gpu_backend

#include "star.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "bytes.hpp"

namespace ppsim {
namespace {

constexpr std::chrono::seconds kAnswer(4);  // time that process 0 has to stop all

Nanoseconds now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string error_bytes(const Error& error) {
  return ByteWriter().put(error.code).put_text(error.message).take();
}

Error error_from(std::string_view bytes) {
  ByteReader reader(bytes);
  const auto code = reader.get<ErrorCode>();
  return {code, std::string(reader.get_text())};
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

Star::Star(const Membership& self, std::map<int, Socket>&& sockets)
    : process_(self.process), size_(self.size), local_process_(self.local_process) {
  for (auto& [process, socket] : sockets) peers_[process].socket = std::move(socket);
  for (auto& [process, peer] : peers_) {
    peer.reader = std::thread([this, process = process, &peer = peer] { serve(process, peer); });
  }
}

Star::~Star() {
  for (auto& [process, peer] : peers_) {
    send(peer, FrameKind::bye, 0, {});
    ::shutdown(peer.socket.descriptor(), SHUT_RD);  // ends the reader; what was sent still arrives
  }
  for (auto& [process, peer] : peers_) peer.reader.join();
}

void Star::send(Peer& peer, FrameKind kind, std::uint32_t epoch, std::string bytes) {
  const std::lock_guard lock(peer.sending);
  // The reader hears of a broken connection, too, and it is the one to say so.
  static_cast<void>(send_frame(peer.socket, {kind, epoch, std::move(bytes)}));
}

void Star::serve(int process, Peer& peer) {
  try {
    while (auto frame = receive_frame(peer.socket)) receive(process, peer, *std::move(frame));
  } catch (const std::exception&) {
    // Bytes that are not ours, or no memory for them: as good as no connection.
  }
  end_of(process, peer);
}

void Star::receive(int process, Peer& peer, Frame frame) {
  const std::int64_t arrived = now_ns();
  switch (frame.kind) {
    case FrameKind::note:
      return hear_note(process, frame.bytes);
    case FrameKind::ping:
      return send(peer, FrameKind::pong, 0, ByteWriter().put(arrived).take());
    case FrameKind::stop:
      static_cast<void>(set_stop(error_from(frame.bytes), std::nullopt));
      return;
    case FrameKind::abort:
      return stop_all(error_from(frame.bytes), frame.epoch);
    case FrameKind::part:
    case FrameKind::all:
    case FrameKind::pong:
    case FrameKind::bye:
      break;
    case FrameKind::hello:
    case FrameKind::welcome:
      return;
  }
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::pong) pong_ = {ByteReader(frame.bytes).get<Nanoseconds>(), arrived};
  if (frame.kind == FrameKind::bye) peer.left = true;
  if (frame.kind == FrameKind::part && frame.epoch == epoch_) peer.parts.push_back(std::move(frame.bytes));
  if (frame.kind == FrameKind::all && frame.epoch == epoch_) all_.push_back(texts_from(frame.bytes));
  changed_.notify_all();
}

void Star::end_of(int process, Peer& peer) {
  {
    const std::lock_guard lock(mutex_);
    if (peer.left) return;
    lose(process, peer);
  }
  stop_all({ErrorCode::io,
            "process " + std::to_string(process) + " is gone: it was killed, or cannot be reached any more"},
           std::nullopt);
}

/// Requires: the lock.
void Star::lose(int process, Peer& peer) {
  peer.left = true;
  gone_.insert(std::lower_bound(gone_.begin(), gone_.end(), process), process);
}

void Star::give_up(int process) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(process);
  if (!peer.left) lose(process, peer);
  changed_.notify_all();
}

Error Star::absent(int process) const {
  return {ErrorCode::io, "process " + std::to_string(process) + " has left the run before its end"};
}

void Star::hear_note(int process, std::string_view note) {
  std::optional<Error> error;
  {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) error = listener_->on_note(process, note);
  }
  if (error) stop(*error);
}

void Star::note(const std::string& note) {
  if (process_ == 0) return hear_note(0, note);
  send(peers_.at(0), FrameKind::note, 0, note);
}

void Star::listen(BootstrapListener* listener) {
  const std::lock_guard lock(listening_);
  listener_ = listener;
}

void Star::stop(const Error& error) {
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
  if (!answered) give_up(0);
  Error alone = error;  // there is nobody left to tell
  if (!answered) alone.message += "\nprocess 0 did not answer";
  static_cast<void>(set_stop(alone, std::nullopt));
}

/// As process 0, tells everybody; as another one that has lost process 0, only itself.
void Star::stop_all(const Error& error, std::optional<std::uint32_t> epoch) {
  if (!set_stop(error, epoch) || process_ != 0) return;
  for (auto& [process, peer] : peers_) send(peer, FrameKind::stop, 0, error_bytes(error));
}

bool Star::set_stop(const Error& error, std::optional<std::uint32_t> epoch) {
  {
    const std::lock_guard lock(mutex_);
    if (epoch && *epoch != epoch_) return false;  // another stop came first
    ++epoch_;
    if (!stopped_) stopped_ = error;  // what follows is its consequence
    all_.clear();
    for (auto& [process, peer] : peers_) peer.parts.clear();
    changed_.notify_all();
  }
  const std::lock_guard lock(listening_);
  if (listener_ != nullptr) listener_->on_stop(error);
  return true;
}

std::vector<int> Star::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

Expected<void> Star::resume() {
  const std::lock_guard lock(mutex_);
  if (!gone_.empty()) return tl::unexpected(*stopped_);
  stopped_.reset();
  return {};
}

Expected<std::vector<std::string>> Star::collect(const std::string& own) {
  std::unique_lock lock(mutex_);
  std::vector<std::string> parts = {own};
  for (auto& [process, peer] : peers_) {
    changed_.wait(lock, [&, &peer = peer] { return stopped_ || !peer.parts.empty() || peer.left; });
    if (stopped_) return tl::unexpected(*stopped_);
    if (peer.parts.empty()) return tl::unexpected(absent(process));
    parts.push_back(std::move(peer.parts.front()));
    peer.parts.pop_front();
  }
  return parts;
}

Expected<std::vector<std::string>> Star::gather(const std::string& bytes) {
  std::unique_lock lock(mutex_);
  if (stopped_) return tl::unexpected(*stopped_);
  const std::uint32_t epoch = epoch_;
  lock.unlock();
  if (process_ == 0) return collect(bytes);
  send(peers_.at(0), FrameKind::part, epoch, bytes);
  return std::vector<std::string>();
}

Expected<std::vector<std::string>> Star::allgather(const std::string& bytes) {
  std::unique_lock lock(mutex_);
  const std::uint32_t epoch = epoch_;
  lock.unlock();
  auto parts = gather(bytes);
  if (!parts) return parts;
  if (process_ == 0) {
    for (auto& [process, peer] : peers_) send(peer, FrameKind::all, epoch, texts_bytes(*parts));
    return parts;
  }
  lock.lock();
  changed_.wait(lock, [&] { return stopped_ || !all_.empty() || peers_.at(0).left; });
  if (stopped_) return tl::unexpected(*stopped_);
  if (all_.empty()) return tl::unexpected(absent(0));
  std::vector<std::string> result = std::move(all_.front());
  all_.pop_front();
  return result;
}

Expected<ClockOffset> Star::offset_of(Peer& peer) {
  constexpr int kRounds = 8;  // the quickest counts
  ClockOffset best{0, std::numeric_limits<Nanoseconds>::max()};
  for (int round = 0; round < kRounds; ++round) {
    const Nanoseconds sent = now_ns();
    send(peer, FrameKind::ping, 0, {});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pong_ || stopped_ || peer.left; });
    if (stopped_) return tl::unexpected(*stopped_);
    if (!pong_) return make_error(ErrorCode::io, "a process has left while clocks were compared");
    const Nanoseconds half = (pong_->back - sent + 1) / 2;
    if (half < best.uncertainty_ns) best = {pong_->there - sent - half, half};
    pong_.reset();
  }
  return best;
}

Expected<std::vector<ClockOffset>> Star::clock_offsets() {
  std::vector<ClockOffset> offsets(1);
  if (process_ != 0) return offsets;
  for (auto& [process, peer] : peers_) {
    const auto offset = offset_of(peer);
    if (!offset) return tl::unexpected(offset.error());
    offsets.push_back(*offset);
  }
  return offsets;
}

}  // namespace ppsim

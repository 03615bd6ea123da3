#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "bytes.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "socket.hpp"

namespace ppsim::gpu_backend {

/// A connection from every process to process 0, each served by a thread that does nothing but read. The end
/// of a connection that nobody announced is the death of a process.
///
/// Stops are numbered: whoever has seen one more is in a later epoch, and messages of an earlier one are
/// dropped. So after a stop all begin again, wherever each of them was.
class TcpBootstrap final : public Bootstrap {
 public:
  /// Waits for all others as process 0. Errors: io or bad_argument naming who is missing or wrong.
  [[nodiscard]] static Expected<std::unique_ptr<Bootstrap>> host(const Membership& self, Socket listener);
  /// Connects to process 0.
  [[nodiscard]] static Expected<std::unique_ptr<Bootstrap>> join(const Membership& self);

  /// Requires: a connection to each process but itself as process 0, else to process 0 alone.
  TcpBootstrap(const Membership& self, std::map<int, Socket>&& sockets);
  ~TcpBootstrap() override;
  TcpBootstrap(const TcpBootstrap&) = delete;
  TcpBootstrap& operator=(const TcpBootstrap&) = delete;

  [[nodiscard]] int process() const override { return process_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int local_process() const override { return local_process_; }
  [[nodiscard]] Expected<std::vector<std::string>> allgather(const std::string& bytes,
                                                             Timeout timeout) override;
  [[nodiscard]] Expected<std::vector<std::string>> gather(const std::string& bytes, Timeout timeout) override;
  void send_heartbeat() override;
  void note(const std::string& note) override;
  void stop(const Error& error) override;
  [[nodiscard]] Expected<void> resume() override;
  void listen(BootstrapListener* listener) override;
  void give_up(int process) override;
  [[nodiscard]] std::vector<int> gone() const override;
  [[nodiscard]] Expected<std::vector<ClockOffset>> clock_offsets(Timeout timeout) override;

 private:
  /// The other end of a connection.
  struct Peer {
    Socket socket;
    std::mutex sending;
    std::deque<std::string> parts;  ///< of gathers that it has joined before this process
    bool left = false;              ///< it has said good-bye
    bool lost = false;              ///< it counts as gone
    std::thread reader;
  };

  using Clock = std::chrono::steady_clock;

  void serve(int process, Peer& peer);
  void receive(int process, Peer& peer, Frame frame);
  void end_of(int process, Peer& peer);
  void lose(int process, Peer& peer);
  void count_as_gone(int process);
  /// Returns: false when this is not the epoch that the stop is for.
  [[nodiscard]] bool set_stop(const Error& error, std::optional<std::uint32_t> epoch);
  void stop_all(const Error& error, std::optional<std::uint32_t> epoch);
  void send(Peer& peer, FrameKind kind, std::uint32_t epoch, std::string bytes);
  void hear_note(int process, std::string_view note);
  /// Returns: false when the timeout was over before.
  [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock, Timeout timeout,
                          const std::function<bool()>& what);
  [[nodiscard]] Expected<std::vector<std::string>> collect(const std::string& own, Timeout timeout);
  void ask_who_is_missing(std::uint32_t epoch, double seconds);
  void hear_stop(ByteReader& reader);
  [[nodiscard]] std::vector<int> missing() const;
  void stop_without(const std::vector<int>& processes, std::uint32_t epoch, double seconds);
  [[nodiscard]] Error absent(int process) const;
  [[nodiscard]] Expected<ClockOffset> offset_of(int process, Peer& peer, Timeout timeout);

  const int process_;
  const int size_;
  const int local_process_;
  std::map<int, Peer> peers_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t epoch_ = 0;
  std::optional<Error> stopped_;
  std::vector<int> gone_;
  bool leaving_ = false;                      ///< connections end because this process ends them
  std::deque<std::vector<std::string>> all_;  ///< results of allgathers that process 0 has sent
  std::optional<int> awaited_;                ///< whose part process 0 is waiting for
  Clock::time_point at_work_;                 ///< when process 0 has said so
  struct Pong {
    Nanoseconds there = 0;
    Nanoseconds back = 0;
  };
  std::optional<Pong> pong_;

  std::mutex listening_;
  BootstrapListener* listener_ = nullptr;
};

}  // namespace ppsim::gpu_backend

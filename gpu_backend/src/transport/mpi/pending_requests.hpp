#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

/// The header in front of the bytes of a message.
struct MessageHeader {
  std::int32_t instruction = -1;  ///< of the sender
  std::uint32_t number = 0;       ///< on its channel
};

/// The other end of a message and its place among all.
struct MpiAddress {
  int process = 0;
  int tag = 0;
  MPI_Comm messages = MPI_COMM_NULL;
};

/// A message that has arrived and is not yet received.
struct MpiArrival {
  MPI_Message message = MPI_MESSAGE_NULL;
  std::size_t bytes = 0;
};
[[nodiscard]] std::optional<MpiArrival> arrival_from(const MpiAddress& from);
/// Receives a message at once.
[[nodiscard]] std::vector<std::byte> take(const MpiArrival& arrival);

/// The operations that MPI has in flight, with the memory that it uses until they complete.
class PendingRequests {
 public:
  using Done = std::function<void()>;
  using HeaderDone = std::function<void(const MessageHeader&)>;

  /// Sends a header and a payload that stays as it is until `done`.
  void send(const MpiAddress& to, const MessageHeader& header, const Payload& payload, Done done);
  /// Sends bytes, which it keeps until `done`; the second without telling.
  void send(const MpiAddress& to, const MessageHeader& header, std::vector<std::byte> bytes, Done done);
  void send_bytes(const MpiAddress& to, std::vector<std::byte> bytes);
  void receive(const MpiArrival& arrival, const Payload& payload, HeaderDone done);

  /// Calls `done` of all requests that have completed. Returns: whether there were any.
  bool progress(bool call = true);
  [[nodiscard]] bool empty() const { return requests_.empty(); }

 private:
  /// A request that is in flight, with the memory that MPI uses until it completes.
  struct PendingRequest {
    MessageHeader header;
    std::vector<std::byte> bytes;
    HeaderDone done;
  };
  PendingRequest& add(PendingRequest pending);

  std::vector<MPI_Request> requests_;
  std::vector<std::unique_ptr<PendingRequest>> pending_;  ///< parallel to requests_
};

/// Yields to other threads and processes, for longer the longer nothing happens.
class Backoff {
 public:
  void reset() { rounds_ = 0; }
  [[nodiscard]] std::chrono::microseconds next();

 private:
  int rounds_ = 0;
};

}  // namespace ppsim::gpu_backend

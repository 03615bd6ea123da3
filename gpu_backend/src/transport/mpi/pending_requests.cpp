#include "pending_requests.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "mpi_world.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// A header and the pieces of a payload as one message, without a copy.
class Layout {
 public:
  Layout(const MessageHeader* header, const Payload& payload) {
    if (header != nullptr) add(header, sizeof *header);
    for (const std::span<std::byte> piece : payload) add(piece.data(), piece.size());
    check_mpi(MPI_Type_create_hindexed(count_, lengths_.data(), places_.data(), MPI_BYTE, &type_),
              "MPI_Type_create_hindexed");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~Layout() { MPI_Type_free(&type_); }  // MPI keeps it for what has begun
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  void add(const void* memory, std::size_t size) {
    if (size == 0) return;
    if (size > as_size(std::numeric_limits<int>::max()))
      throw BackendError(ErrorCode::bad_argument, "a piece of a message above 2 GiB");
    const auto at = as_size(count_++);
    lengths_[at] = static_cast<int>(size);
    check_mpi(MPI_Get_address(memory, &places_[at]), "MPI_Get_address");
  }

  std::array<int, 3> lengths_{};
  std::array<MPI_Aint, 3> places_{};
  int count_ = 0;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

MPI_Request begin_send(const MpiAddress& to, const Layout& layout) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Issend(MPI_BOTTOM, 1, layout.type(), to.process, to.tag, to.messages, &request),
            "MPI_Issend");
  return request;
}

}  // namespace

std::optional<MpiArrival> arrival_from(const MpiAddress& from) {
  int there = 0;
  MpiArrival arrival;
  MPI_Status status;
  check_mpi(MPI_Improbe(from.process, from.tag, from.messages, &there, &arrival.message, &status),
            "MPI_Improbe");
  if (there == 0) return std::nullopt;
  MPI_Count bytes = 0;
  check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
  arrival.bytes = as_size(bytes);
  return arrival;
}

std::vector<std::byte> take(const MpiArrival& arrival) {
  std::vector<std::byte> bytes(arrival.bytes);
  const Layout layout(nullptr, {std::span(bytes), {}});
  MPI_Message message = arrival.message;
  check_mpi(MPI_Mrecv(MPI_BOTTOM, 1, layout.type(), &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  return bytes;
}

PendingRequests::PendingRequest& PendingRequests::add(PendingRequest pending) {
  pending_.push_back(std::make_unique<PendingRequest>(std::move(pending)));
  requests_.push_back(MPI_REQUEST_NULL);
  return *pending_.back();
}

void PendingRequests::send(const MpiAddress& to, const MessageHeader& header, const Payload& payload,
                           Done done) {
  const PendingRequest& pending =
      add({header, {}, [done = std::move(done)](const MessageHeader& /*own*/) { done(); }});
  requests_.back() = begin_send(to, Layout(&pending.header, payload));
}

void PendingRequests::send(const MpiAddress& to, const MessageHeader& header, std::vector<std::byte> bytes,
                           Done done) {
  PendingRequest& pending =
      add({header, std::move(bytes), [done = std::move(done)](const MessageHeader& /*own*/) { done(); }});
  requests_.back() = begin_send(to, Layout(&pending.header, {std::span(pending.bytes), {}}));
}

void PendingRequests::send_bytes(const MpiAddress& to, std::vector<std::byte> bytes) {
  PendingRequest& pending = add({{}, std::move(bytes), [](const MessageHeader& /*own*/) {}});
  requests_.back() = begin_send(to, Layout(nullptr, {std::span(pending.bytes), {}}));
}

void PendingRequests::receive(const MpiArrival& arrival, const Payload& payload, HeaderDone done) {
  PendingRequest& pending = add({{}, {}, std::move(done)});
  const Layout layout(&pending.header, payload);
  MPI_Message message = arrival.message;
  check_mpi(MPI_Imrecv(MPI_BOTTOM, 1, layout.type(), &message, &requests_.back()), "MPI_Imrecv");
}

bool PendingRequests::progress(bool call) {
  if (requests_.empty()) return false;
  std::vector<int> ended(requests_.size());
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended.data(),
                         MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (count <= 0) return false;
  ended.resize(as_size(count));
  std::ranges::sort(ended);  // the first posted is reported first
  std::vector<std::unique_ptr<PendingRequest>> ended_requests;
  for (const int at : ended) ended_requests.push_back(std::move(pending_[as_size(at)]));
  std::erase(pending_, nullptr);
  std::erase(requests_, MPI_REQUEST_NULL);
  for (const auto& pending : ended_requests) {
    if (call) pending->done(pending->header);
  }
  return true;
}

std::chrono::microseconds Backoff::next() {
  constexpr int kEager = 50;
  constexpr int kLongest = 100;  // microseconds
  if (++rounds_ <= kEager) return std::chrono::microseconds(0);
  return std::chrono::microseconds(std::min(rounds_ - kEager, kLongest));
}

}  // namespace ppsim::gpu_backend

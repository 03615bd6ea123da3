#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/gpu_device.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "process_group/peers.hpp"

namespace ppsim::gpu_backend {

/// Names a loan to the other processes, an event or memory, by its use. All processes number alike.
struct LoanKey {
  enum class Kind : std::uint8_t {
    ready,     ///< event of a channel: the memory of a RECV is free
    done,      ///< event of a channel: a copy is there
    there,     ///< event of a communicator's member: what it adds to a sum is there
    sum,       ///< event of a communicator: a sum is there
    received,  ///< memory of the RECV of a message
    summand,   ///< memory that a member of a collective adds
  };
  Kind kind = Kind::ready;
  std::uint32_t number = 0;  ///< of the channel, communicator, message or collective
  std::uint32_t member = 0;  ///< of a communicator
  friend auto operator<=>(const LoanKey&, const LoanKey&) = default;
};

/// Events and device memory of this process that other processes of its host use, and theirs that it uses, by
/// CUDA IPC. Borrowed memory is as near as that of a device of this process: the borrower's device accesses
/// it over NVLink or PCIe. Whoever lends keeps the thing until all borrowers have given it back. Source: CUDA
/// Driver API, "Memory Management" and "Event Management" (cuIpc*). Errors: throws BackendError that names
/// the rank.
class IpcLoans {
 public:
  /// Requires: an event that make_shared_event() made.
  void lend(const LoanKey& key, const RankDevice& of, CUevent_st* event);
  /// Requires: memory that the rank has allocated.
  void lend(const LoanKey& key, const RankDevice& of, const Payload& memory);
  /// Tells all what is lent; all processes call it once.
  void exchange(Peers& peers);

  /// Requires: exchange() before.
  [[nodiscard]] CUevent_st* borrow_event(const LoanKey& key, const RankDevice& by);
  [[nodiscard]] Payload borrow_memory(const LoanKey& key, const RankDevice& by);
  /// Requires: nothing in flight uses what was borrowed.
  void give_back();

 private:
  /// A piece of memory in an allocation of a process.
  struct Piece {
    std::uint32_t allocation = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  using Pieces = std::array<Piece, 2>;
  struct Loans {
    std::vector<CudaIpcHandle> allocations;
    std::map<LoanKey, CudaIpcHandle> events;
    std::map<LoanKey, Pieces> memory;
  };
  /// An allocation of a process, opened for a device of this one.
  struct Opening {
    std::size_t process = 0;
    std::uint32_t allocation = 0;
    int device = 0;
    friend auto operator<=>(const Opening&, const Opening&) = default;
  };
  using MappedMemory = GpuHandle<std::byte>;

  [[nodiscard]] std::uint32_t allocation_at(const RankDevice& of, CudaAddress begin);
  [[nodiscard]] std::byte* open(const Opening& opening, const RankDevice& by);
  [[nodiscard]] static std::string packed(const Loans& loans);
  [[nodiscard]] static Loans unpacked(const std::string& bytes);

  Loans own_;
  std::map<CudaAddress, std::uint32_t> numbers_;  ///< of own allocations, by where they begin
  std::vector<Loans> all_;                        ///< per process
  std::vector<EventHandle> events_;
  std::map<Opening, MappedMemory> mapped_;
};

}  // namespace ppsim::gpu_backend

#include "ipc_loans.hpp"

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "process_group/bytes.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr const char* kOpenEvent = "opening an event of another process (do both have one IPC namespace?)";
constexpr const char* kOpenMemory =
    "opening memory of another process (do both have one IPC namespace, and access to each other's devices?)";

template <class Value>
void put_map(ByteWriter& writer, const std::map<LoanKey, Value>& map) {
  writer.put(map.size());
  for (const auto& [key, value] : map) writer.put(key).put(value);
}
template <class Value>
void get_map(ByteReader& reader, std::map<LoanKey, Value>& map) {
  for (auto left = reader.get<std::size_t>(); left > 0; --left) {
    const auto key = reader.get<LoanKey>();
    map[key] = reader.get<Value>();
  }
}

[[noreturn]] void missing(const RankDevice& by) {
  throw BackendError(ErrorCode::io, "rank " + std::to_string(by.rank().value()) +
                                        ": no process lends what its messages need");
}

}  // namespace

void IpcLoans::lend(const LoanKey& key, const RankDevice& of, CUevent_st* event) {
  of.make_current();
  of.check(of.cuda().ipc_event_handle(&own_.events[key], event), "lending an event to other processes");
}

std::uint32_t IpcLoans::allocation_at(const RankDevice& of, CudaAddress begin) {
  const auto [at, added] = numbers_.try_emplace(begin, static_cast<std::uint32_t>(numbers_.size()));
  if (added) {
    own_.allocations.emplace_back();
    of.check(of.cuda().ipc_memory_handle(&own_.allocations.back(), begin),
             "lending memory to other processes");
  }
  return at->second;
}

void IpcLoans::lend(const LoanKey& key, const RankDevice& of, const Payload& memory) {
  of.make_current();
  Pieces& pieces = own_.memory[key];
  for (std::size_t p = 0; p < memory.size(); ++p) {
    if (memory[p].empty()) continue;
    CudaAddress begin = 0;
    std::size_t bytes = 0;
    const CudaAddress address = address_of(memory[p].data());
    of.check(of.cuda().memory_range(&begin, &bytes, address), "finding the allocation of a tensor");
    pieces[p] = {allocation_at(of, begin), address - begin, memory[p].size()};
  }
}

std::string IpcLoans::packed(const Loans& loans) {
  ByteWriter writer;
  writer.put_all(std::span<const CudaIpcHandle>(loans.allocations));
  put_map(writer, loans.events);
  put_map(writer, loans.memory);
  return writer.take();
}

IpcLoans::Loans IpcLoans::unpacked(const std::string& bytes) {
  ByteReader reader(bytes);
  Loans loans;
  loans.allocations = reader.get_all<CudaIpcHandle>();
  get_map(reader, loans.events);
  get_map(reader, loans.memory);
  return loans;
}

void IpcLoans::exchange(Peers& peers) {
  for (const std::string& bytes : peers.from_all(packed(own_))) all_.push_back(unpacked(bytes));
}

CUevent_st* IpcLoans::borrow_event(const LoanKey& key, const RankDevice& by) {
  for (const Loans& loans : all_) {
    const auto at = loans.events.find(key);
    if (at == loans.events.end()) continue;
    by.make_current();
    CUevent_st* event = nullptr;
    by.check(by.cuda().ipc_event_open(&event, at->second), kOpenEvent);
    events_.push_back({event, [destroy = by.cuda().event_destroy](CUevent_st* e) { destroy(e); }});
    return event;
  }
  missing(by);
}

Payload IpcLoans::borrow_memory(const LoanKey& key, const RankDevice& by) {
  for (std::size_t process = 0; process < all_.size(); ++process) {
    const auto at = all_[process].memory.find(key);
    if (at == all_[process].memory.end()) continue;
    Payload payload;
    for (std::size_t p = 0; p < payload.size(); ++p) {
      const Piece& piece = at->second[p];
      if (piece.bytes == 0) continue;
      if (piece.allocation >= all_[process].allocations.size()) missing(by);
      std::byte* const begin = open({process, piece.allocation, by.device().ordinal()}, by);
      payload[p] = {begin + piece.offset, as_size(piece.bytes)};
    }
    return payload;
  }
  missing(by);
}

/// A device opens an allocation once, whichever of its ranks need it.
std::byte* IpcLoans::open(const Opening& opening, const RankDevice& by) {
  MappedMemory& mapped = mapped_[opening];
  if (mapped) return mapped.get();
  by.make_current();
  CudaAddress address = 0;
  const CudaIpcHandle& handle = all_[opening.process].allocations[opening.allocation];
  by.check(by.cuda().ipc_memory_open(&address, handle, kCudaIpcLazyPeerAccess), kOpenMemory);
  mapped = {reinterpret_cast<std::byte*>(address), [&by](std::byte* memory) {
              by.make_current();
              by.cuda().ipc_memory_close(address_of(memory));
            }};
  return mapped.get();
}

void IpcLoans::give_back() {
  events_.clear();
  mapped_.clear();
}

}  // namespace ppsim::gpu_backend

#include "payload.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "ppsim/gpu_backend/device.hpp"

namespace ppsim {
namespace {

void add_norm(std::span<std::byte> into, std::span<const std::byte> from) {
  double a = 0;
  double b = 0;
  check_sizes(into.size(), sizeof a);
  std::memcpy(&a, into.data(), sizeof a);
  std::memcpy(&b, from.data(), sizeof b);
  a += b;
  std::memcpy(into.data(), &a, sizeof a);
}

void add(const StageModel& model, Reduction reduction, std::span<std::byte> into,
         std::span<const std::byte> from) {
  switch (reduction) {
    case Reduction::none:
      return;
    case Reduction::gradients:
      return model.accumulate(into, from);
    case Reduction::norm:
      return add_norm(into, from);
  }
}

}  // namespace

std::size_t size_of(const Payload& payload) { return payload[0].size() + payload[1].size(); }

void check_sizes(std::size_t to, std::size_t from) {
  if (to == from) return;
  throw BackendError(
      ErrorCode::bad_argument,
      "a payload of " + std::to_string(from) + " bytes meets a payload of " + std::to_string(to) + " bytes");
}

std::vector<std::byte> pack(const Payload& payload) {
  std::vector<std::byte> bytes;
  bytes.reserve(size_of(payload));
  for (const std::span<std::byte> piece : payload) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

void unpack(std::span<const std::byte> bytes, const Payload& to) {
  for (const std::span<std::byte> piece : to) {
    std::copy_n(bytes.begin(), piece.size(), piece.begin());
    bytes = bytes.subspan(piece.size());
  }
}

void reduce(const StageModel& model, Reduction reduction, std::span<const std::span<std::byte>> payloads) {
  std::vector<std::span<std::byte>> given;
  std::copy_if(payloads.begin(), payloads.end(), std::back_inserter(given),
               [](std::span<std::byte> payload) { return !payload.empty(); });
  for (std::size_t i = 1; i < given.size(); ++i) {
    check_sizes(given[0].size(), given[i].size());
    add(model, reduction, given[0], given[i]);
  }
  for (std::size_t i = 1; i < given.size(); ++i)
    std::copy(given[0].begin(), given[0].end(), given[i].begin());
}

}  // namespace ppsim

#include "payload.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
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

bool has_part(const CollectiveCall& call) { return !call.statistics.empty() || !call.summand.empty(); }

/// Requires: parts of one size, at least one.
void make_one(const Program& program, const CpuStageModel& model, const CollectiveCall& call,
              std::span<const CollectivePart> parts) {
  const auto into_first = [&](auto add) {
    for (const CollectivePart& part : parts.subspan(1)) add(parts.front().summand, part.summand);
  };
  switch (call.reduction) {
    case Reduction::none:
      return;
    case Reduction::gradients:
      return into_first([&](auto into, auto from) { model.accumulate(into, from); });
    case Reduction::norm:
      return into_first(add_norm);
    case Reduction::combined:
      return model.combine(program.pipeline(), program.actions(call.instruction).front().collective(), parts);
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
  for (const std::span<std::byte> piece : payload) append_all(bytes, piece);
  return bytes;
}

void copy_payload(const Payload& from, const Payload& to) {
  check_sizes(size_of(to), size_of(from));
  if (from[1].empty() && to[1].empty()) {
    std::ranges::copy(from[0], to[0].begin());
  } else {
    unpack(pack(from), to);
  }
}

void put_sum(std::span<const std::byte> sum, std::span<std::byte> result) {
  if (result.size() > sum.size()) check_sizes(result.size(), sum.size());
  if (result.data() != sum.data()) std::copy_n(sum.begin(), result.size(), result.begin());
}

void add_to_total(const CpuStageModel& model, const CollectiveCall& call) {
  if (!call.total.empty()) model.accumulate(call.total, call.result);
}

void unpack(std::span<const std::byte> bytes, const Payload& to) {
  for (const std::span<std::byte> piece : to) {
    std::copy_n(bytes.begin(), piece.size(), piece.begin());
    bytes = bytes.subspan(piece.size());
  }
}

void reduce(const Program& program, const CpuStageModel& model, std::span<const CollectiveCall> calls) {
  std::vector<CollectivePart> parts;
  for (const CollectiveCall& call : calls) {
    if (!has_part(call)) continue;
    parts.push_back({call.statistics, call.summand});
    check_sizes(parts.front().statistics.size(), call.statistics.size());
    check_sizes(parts.front().summand.size(), call.summand.size());
  }
  if (parts.empty()) return;
  make_one(program, model, calls.front(), parts);
  for (const CollectiveCall& call : calls) put_sum(parts.front().summand, call.result);
  for (const CollectiveCall& call : calls) add_to_total(model, call);
}

}  // namespace ppsim::gpu_backend

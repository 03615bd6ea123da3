#pragma once

#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

[[nodiscard]] std::size_t size_of(const Payload& payload);

/// Errors: throws BackendError when the two ends of a message, or two members of a collective, differ in
/// size.
void check_sizes(std::size_t to, std::size_t from);

[[nodiscard]] std::vector<std::byte> pack(const Payload& payload);
/// Copies bytes, in order, into the pieces of a payload of the same size.
void unpack(std::span<const std::byte> bytes, const Payload& to);

/// From one end of a message to the other. Errors: throws BackendError when they differ in size.
void copy_payload(const Payload& from, const Payload& to);

/// Copies as much of the sum of a collective as the result has room for. Errors: throws BackendError when the
/// sum is smaller.
void put_sum(std::span<const std::byte> sum, std::span<std::byte> result);

/// Adds the result of a collective to the total that it belongs to, if there is one.
void add_to_total(const CpuStageModel& model, const CollectiveCall& call);

/// Runs a collective of which all members have joined, in rank order: makes one of their parts and puts the
/// sum where it goes. Parts of members without bytes do not count.
void reduce(const Program& program, const CpuStageModel& model, std::span<const CollectiveCall> calls);

}  // namespace ppsim::gpu_backend

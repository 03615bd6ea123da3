#pragma once

#include <span>
#include <vector>

#include "ppsim/gpu_backend/stage_model.hpp"
#include "ppsim/gpu_backend/transport.hpp"

namespace ppsim {

[[nodiscard]] std::size_t size_of(const Payload& payload);

/// Errors: throws BackendError when the two ends of a message, or two members of a collective, differ in
/// size.
void check_sizes(std::size_t to, std::size_t from);

[[nodiscard]] std::vector<std::byte> pack(const Payload& payload);
/// Copies bytes, in order, into the pieces of a payload of the same size.
void unpack(std::span<const std::byte> bytes, const Payload& to);

/// Adds up the payloads that are not empty, in their order, into the first of them, and copies the sum into
/// the others.
void reduce(const StageModel& model, Reduction reduction, std::span<const std::span<std::byte>> payloads);

}  // namespace ppsim

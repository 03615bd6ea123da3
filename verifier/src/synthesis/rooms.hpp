#pragma once

#include <string>
#include <vector>

#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace ppsim::verifier::synthesis {

/// The memory of their rank that actions take when they start and give back when they end: in activations
/// of a stage, or in bytes. A strand is a phase of a stage, see ChainModel.
struct Rooms {
  std::vector<Bytes> take;      ///< by strand
  std::vector<Bytes> give;      ///< by strand
  std::vector<Bytes> capacity;  ///< by rank
};

/// Less than, or exactly, what a rank needs in the worst of all timings: tensors that are live there whatever
/// the others do. What is within a limit in every timing is within it here.
[[nodiscard]] Rooms certain_rooms(const SynthesisRequest& request);

/// An estimate of the worst case, which also has what usually is live: what waits to be sent, gradients that
/// are summed up.
[[nodiscard]] Rooms usual_rooms(const SynthesisRequest& request);

/// Why not even one microbatch after the other keeps to the limit, or nothing.
[[nodiscard]] std::string no_room(const SynthesisRequest& request);

}  // namespace ppsim::verifier::synthesis

#include "synthesis/rooms.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {
namespace {

/// Sizes of what a stage holds for one microbatch.
struct Held {
  Bytes input = 0;   ///< on one rank with its producer that one's output
  Bytes output = 0;  ///< none on one rank with its consumer
  Bytes saved_for_input = 0, saved_for_weight = 0;
  Bytes inner = 0;     ///< from I to W
  Bytes incoming = 0;  ///< the gradient of its output, from I to W
};

class ByteRooms {
 public:
  ByteRooms(const SynthesisRequest& request, bool usual)
      : sizes_(request.bytes->sizes),
        placement_(placement_of(request)),
        kinds_(phases_of(request.backward)),
        microbatches_(request.microbatches),
        usual_(usual),
        rooms_{.take = std::vector<Bytes>(placement_.size() * kinds_.size(), 0),
               .give = {},
               .capacity = std::vector<Bytes>(as_size(request.ranks), request.bytes->per_rank)} {
    rooms_.give = rooms_.take;
  }

  Rooms build() {
    for (std::size_t s = 0; s < placement_.size(); ++s) {
      const auto stage = static_cast<std::int32_t>(s);
      Bytes& capacity = rooms_.capacity[placement_[s].index()];
      capacity -= size(TensorKind::parameters, stage) + size(TensorKind::optimizer_state, stage);
      if (usual_) capacity -= size(TensorKind::gradients, stage);
      if (usual_ && s == 0) capacity -= microbatches_ * size(TensorKind::boundary_input, stage);
      add(s, held_by(stage));
    }
    return std::move(rooms_);
  }

 private:
  [[nodiscard]] Bytes size(TensorKind kind, std::int32_t subject, std::int32_t peer = -1) const {
    return sizes_({.kind = kind, .subject = subject, .peer = peer, .slice = 0});
  }
  [[nodiscard]] bool together(std::size_t a, std::size_t b) const { return placement_[a] == placement_[b]; }

  [[nodiscard]] Held held_by(std::int32_t stage) const {
    const auto s = as_size(stage);
    const bool last = s + 1 == placement_.size();
    Held held{.saved_for_input = size(TensorKind::saved_for_input, stage),
              .saved_for_weight = size(TensorKind::saved_for_weight, stage),
              .inner = size(TensorKind::inner_gradients, stage)};
    if (stage > 0) {
      held.input = together(s, s - 1) ? size(TensorKind::boundary_output, stage - 1)
                                      : size(TensorKind::boundary_input, stage);
    }
    if (last) return held;
    held.incoming = size(TensorKind::incoming_gradient, stage, stage + 1);
    if (!together(s, s + 1)) held.output = size(TensorKind::boundary_output, stage);
    return held;
  }

  void add(std::size_t s, const Held& held) {
    const std::size_t strand = s * kinds_.size();
    const std::size_t weight = strand + kinds_.size() - 1;
    hold(strand, weight, held.input + held.saved_for_weight);
    hold(strand, strand + 1, held.saved_for_input);
    hold(strand + 1, weight, held.incoming);
    if (weight > strand + 1) hold(strand + 1, weight, held.inner);
    for (std::size_t phase = 0; phase < kinds_.size(); ++phase)
      hold(strand + phase, strand + phase, workspace(static_cast<std::int32_t>(s), kinds_[phase]));
    // The send may be as late as the gradient that comes back for it.
    if (usual_) hold(strand, strand + 1, held.output);
  }

  [[nodiscard]] Bytes workspace(std::int32_t stage, OpKind kind) const {
    return sizes_({.kind = TensorKind::workspace, .subject = stage, .slice = 0, .op = kind});
  }

  void hold(std::size_t from, std::size_t to, Bytes size) {
    rooms_.take[from] += size;
    rooms_.give[to] += size;
  }

  const SizeTable& sizes_;
  std::vector<RankId> placement_;
  std::vector<OpKind> kinds_;
  int microbatches_;
  bool usual_;
  Rooms rooms_;
};

Rooms activation_rooms(const SynthesisRequest& request) {
  const std::size_t phases = phases_of(request.backward).size();
  const std::size_t strands = placement_of(request).size() * phases;
  Rooms rooms{.take = std::vector<Bytes>(strands, 0),
              .give = std::vector<Bytes>(strands, 0),
              .capacity = std::vector<Bytes>(as_size(request.ranks), request.activation_limit)};
  for (std::size_t strand = 0; strand < strands; strand += phases) {
    rooms.take[strand] = 1;
    rooms.give[strand + phases - 1] = 1;
  }
  return rooms;
}

}  // namespace

Rooms certain_rooms(const SynthesisRequest& request) {
  return request.bytes ? ByteRooms(request, false).build() : activation_rooms(request);
}

Rooms usual_rooms(const SynthesisRequest& request) {
  return request.bytes ? ByteRooms(request, true).build() : activation_rooms(request);
}

std::string no_room(const SynthesisRequest& request) {
  const Rooms rooms = certain_rooms(request);
  const std::vector<RankId> placement = placement_of(request);
  const std::size_t phases = rooms.take.size() / placement.size();
  std::vector<Bytes> needed(rooms.capacity.size(), 0);
  std::vector<int> stages(rooms.capacity.size(), 0);
  for (std::size_t s = 0; s < placement.size(); ++s) {
    // Behind the last F of a microbatch all its stages are live; the workspace of F is given back.
    needed[placement[s].index()] += rooms.take[s * phases] - rooms.give[s * phases];
    ++stages[placement[s].index()];
  }
  for (std::size_t r = 0; r < needed.size(); ++r) {
    if (needed[r] <= rooms.capacity[r]) continue;
    const std::string rank = "rank " + std::to_string(r);
    if (!request.bytes && needed[r] == 1) {
      return "every rank holds the activations of a microbatch from its F to its W or B: at least 1 is "
             "needed, "
             "the limit is 0";
    }
    if (!request.bytes) {
      return rank + " holds a microbatch on all of its stages between its F and its W or B: at least " +
             std::to_string(needed[r]) + " is needed, the limit is " +
             std::to_string(request.activation_limit);
    }
    return rank + " needs " + std::to_string(needed[r] + request.bytes->per_rank - rooms.capacity[r]) +
           " bytes for its parameters and one microbatch, the limit is " +
           std::to_string(request.bytes->per_rank);
  }
  return "";
}

}  // namespace ppsim::verifier::synthesis

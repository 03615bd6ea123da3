#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::test {

/// The actions that one end of a message, or one part of a sum, may be of; none where nobody told.
using EndActions = std::vector<Action>;

/// Whether a transfer is one of saved activations, which are two pieces of memory.
[[nodiscard]] bool moves_activations(const Action& action);

/// The host's marks while it enqueues communication: which tensors are meant to meet. NCCL does not know
/// that; two messages of one size that change places are found by nothing else.
class Ends {
 public:
  /// Of the Program that runs.
  void know(const Pipeline& pipeline) { pipeline_ = pipeline; }

  /// The actions of a mark like `PP:{0SEND_F1 0RECV_B0}`, in order; none where it names none.
  [[nodiscard]] EndActions actions(const std::string& mark) const;
  [[nodiscard]] std::string text(const EndActions& end) const;
  /// Whether one end may be the other one's counterpart, as far as anybody told.
  [[nodiscard]] static bool meet(const EndActions& one, const EndActions& other);

 private:
  std::optional<Pipeline> pipeline_;
};

}  // namespace ppsim::test

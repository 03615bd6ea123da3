#pragma once

#include <vector>

#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace ppsim::verifier::synthesis {

/// Per rank, whether each action of the order to keep is a forward; W left out. Empty without such an order.
using KeptOrder = std::vector<std::vector<bool>>;

/// Requires: check_kept_order(request).
[[nodiscard]] KeptOrder kept_order_of(const SynthesisRequest& request);

/// Errors: bad_argument, as synthesize.
[[nodiscard]] Expected<void> check_kept_order(const SynthesisRequest& request);

/// Why no placement of W keeps to the limit, or nothing.
[[nodiscard]] std::string too_many_live(const SynthesisRequest& request);

}  // namespace ppsim::verifier::synthesis

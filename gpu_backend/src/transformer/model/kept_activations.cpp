#include "kept_activations.hpp"

#include <cstdint>
#include <string>

#include "ppsim/core/io/text.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

/// True where an action makes saved activations again, or moves them.
bool takes_saved(OpKind kind) {
  return kind == OpKind::recompute || kind == OpKind::offload || kind == OpKind::send_activation;
}

}  // namespace

Expected<void> check_kept(const Program& program, const KeptActivations& kept) {
  std::int64_t waiting = 0;  // F without its B or I
  for (const Action& action : program.all_actions()) {
    if (!kept.concerns(action)) continue;
    if (action.kind == OpKind::forward) ++waiting;
    if (gives_input_gradient(action.kind)) --waiting;
    if (!takes_saved(action.kind)) continue;
    return make_error(
        ErrorCode::bad_argument, std::string("the transformer ") + kept.why,
        {.found = action_text(program.pipeline(), action), .expected = "neither R nor OFFLOAD nor SEND_A"});
  }
  if (waiting == 0) return {};
  return make_error(ErrorCode::bad_argument,
                    std::string("the transformer cannot run ") + kept.of + " without backward",
                    {.found = std::to_string(waiting) + " more F than B and I", .expected = "as many"});
}

}  // namespace ppsim::gpu_backend::transformer

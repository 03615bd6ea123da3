// A proof under one record of capabilities holds under every other that holds_under() names.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// One of the properties that rest on waits and orders.
bool is_proved(const Program& program, const TransportCapabilities& capabilities, Property property) {
  VerifyOptions options;
  options.capabilities = capabilities;
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free, property};
  return verify(program, options).all_proved();
}

TransportCapabilities draw_capabilities() {
  if (*rc::gen::arbitrary<bool>()) return random_capabilities(false, *rc::gen::arbitrary<std::uint64_t>());
  const auto& named = transports()[*rc::gen::inRange<std::size_t>(0, transports().size())];
  return transport(named.name, *rc::gen::arbitrary<bool>()).value();
}

RC_GTEST_PROP(OtherTransports, AProofHoldsWhereItIsSaidToHold, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Program program = random_program(*schedules(general_shapes()), *rc::gen::inRange(0, 3), seed);
  const TransportCapabilities proved = draw_capabilities();
  if (!is_proved(program, proved, Property::deadlock_free)) return;
  const bool uses_proved = is_proved(program, proved, Property::tensor_use);
  for (int i = 0; i < 6; ++i) {
    const TransportCapabilities used = draw_capabilities();
    if (holds_under(proved, used, Claim::safety)) {
      RC_ASSERT(is_proved(program, used, Property::deadlock_free));
    }
    if (uses_proved && holds_under(proved, used, Claim::orders)) {
      RC_ASSERT(is_proved(program, used, Property::tensor_use));
    }
  }
}

}  // namespace
}  // namespace ppsim::test

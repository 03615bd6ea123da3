#include "ppsim/core/ir/capabilities.hpp"

namespace ppsim {

std::ostream& operator<<(std::ostream& out, const TransportCapabilities& capabilities) {
  if (capabilities.credits) {
    out << *capabilities.credits << " credits";
  } else {
    out << "rendezvous";
  }
  if (capabilities.residency) out << ", " << *capabilities.residency << " resident";
  if (capabilities.issue_blocks) out << ", blocking issue";
  if (capabilities.captures_graphs) out << ", graphs";
  return out;
}

}  // namespace ppsim

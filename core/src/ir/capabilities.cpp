#include "ppsim/core/ir/capabilities.hpp"

#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

void write(std::ostream& out, const LaunchChain& chain) {
  switch (chain.order) {
    case LaunchOrder::none:
      out << "independent queues";
      return;
    case LaunchOrder::start:
      out << "launches in order";
      break;
    case LaunchOrder::completion:
      out << "one launch at a time";
      break;
  }
  if (chain.everything) {
    out << ", one hardware queue";
  } else if (chain.compute) {
    out << ", computation included";
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const TransportCapabilities& capabilities) {
  if (capabilities.credits) {
    out << with_plural(*capabilities.credits, "credit");
  } else {
    out << "rendezvous";
  }
  if (capabilities.eager) out << ", eager sends";
  if (capabilities.residency) out << ", " << *capabilities.residency << " resident";
  if (capabilities.issue_blocks) out << ", blocking issue";
  if (capabilities.captures_graphs) out << ", graphs";
  if (capabilities.launches.order != LaunchOrder::none) {
    out << ", ";
    write(out, capabilities.launches);
    if (capabilities.guaranteed_launches != capabilities.launches) {
      out << " (guaranteed: ";
      write(out, capabilities.guaranteed_launches);
      out << ')';
    }
  }
  return out;
}

bool holds_under(const TransportCapabilities& proved, const TransportCapabilities& used, Claim claim) {
  if (proved.residency != used.residency || !used.launches.is_within(proved.launches)) return false;
  const bool buffers = !proved.credits || (used.credits && *used.credits >= *proved.credits);
  if (claim == Claim::safety) return buffers && used.issue_blocks <= proved.issue_blocks;
  const bool same_sends = proved.eager || (!used.eager && proved.credits == used.credits);
  return buffers && same_sends && proved.issue_blocks == used.issue_blocks &&
         proved.guaranteed_launches.is_within(used.guaranteed_launches);
}

}  // namespace ppsim

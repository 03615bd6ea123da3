#include "slowdown_output.hpp"

namespace ppsim::cli {

Json slowdown_fit_json(const SlowdownFit& fit) {
  Json kinds = Json::array();
  for (const KindSlowdown& kind : fit.kinds) {
    kinds.push_back({{"kind", info(kind.kind).text},
                     {"actions", kind.actions},
                     {"others", kind.others},
                     {"slowdown", kind.slowdown},
                     {"own", kind.own},
                     {"spread_before", kind.spread_before},
                     {"spread_after", kind.spread_after}});
  }
  return {{"ranks_per_device", fit.devices.ranks},
          {"undisturbed_ranks", fit.devices.undisturbed},
          {"kinds", std::move(kinds)}};
}

std::string slowdown_fit_text(const SlowdownFit& fit) {
  TextTable rows = {{"kind", "actions", "others beside", "slowdown by each", "spread", "spread without it"}};
  for (const KindSlowdown& kind : fit.kinds) {
    rows.push_back({std::string(info(kind.kind).text), std::to_string(kind.actions),
                    fixed_text(kind.others, 2), percent_text(kind.slowdown), percent_text(kind.spread_before),
                    percent_text(kind.spread_after)});
  }
  std::string text = table_text(rows);
  if (fit.devices.undisturbed > 0)
    text += "of the others of a device " + std::to_string(fit.devices.undisturbed) + " slow nobody down\n";
  return text;
}

}  // namespace ppsim::cli

#include "pictures.hpp"

#include <sstream>

#include "binding.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::python {
namespace {

SimulatedStep at_unit_costs(const Ir& ir) {
  const CostSource units = value_of(parse_unit_costs("F=1"));
  CostBinding costs = value_of(bind_cost_source(units, pipeline_of(ir)));
  Program program = value_of(to_program(ir, {}, &costs.tables.costs));
  return value_of(evaluate(name_of(ir), std::move(program), std::move(costs)));
}

}  // namespace

void check_width(int width) {
  if (width >= 20 && width <= 20000) return;
  throw CoreError({ErrorCode::bad_argument,
                   "width out of range",
                   {.found = std::to_string(width), .expected = "20 to 20000"}});
}

std::string unit_svg(const Ir& ir, const std::string& title, int width) {
  check_width(width);
  const SimulatedStep step = at_unit_costs(ir);
  std::ostringstream out;
  write_svg(out, step.program(), step.trace, {.title = title.empty() ? step.name : title, .width = width});
  return out.str();
}

std::string unit_html(const Ir& ir) {
  try {
    return unit_svg(ir, "", 1000);
  } catch (const CoreError& error) {
    return "<pre>" + markup_text(to_string(error.error())) + "</pre>";
  }
}

std::string unit_text(const Ir& ir, int width) {
  check_width(width);
  const SimulatedStep step = at_unit_costs(ir);
  std::ostringstream out;
  write_text_timeline(out, step.program(), step.trace, {.width = width});
  return out.str();
}

}  // namespace ppsim::python

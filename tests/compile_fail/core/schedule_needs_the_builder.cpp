#include <utility>

#include "ppsim/core/ir/schedule.hpp"

ppsim::Expected<ppsim::Schedule> make(ppsim::Pipeline pipeline) {
#ifdef PPSIM_MISTAKE
  return ppsim::Schedule("empty", std::move(pipeline), {});
#else
  return ppsim::ScheduleBuilder("empty", std::move(pipeline)).build();
#endif
}

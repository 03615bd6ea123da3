#pragma once

#include "ppsim/schedules/registry.hpp"

namespace ppsim::catalogue {

#define PPSIM_SCHEDULE(function) ScheduleInfo function();
#include "schedules.def"
#undef PPSIM_SCHEDULE

}  // namespace ppsim::catalogue

#pragma once

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules::catalogue {

#define PPSIM_SCHEDULE(function) ScheduleInfo function();
#include "schedules.def"
#undef PPSIM_SCHEDULE

}  // namespace ppsim::schedules::catalogue

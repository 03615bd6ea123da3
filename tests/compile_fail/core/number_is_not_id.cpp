#include "ppsim/core/ir/ids.hpp"

ppsim::StageId first_stage() {
#ifdef PPSIM_MISTAKE
  return 0;
#else
  return ppsim::StageId(0);
#endif
}

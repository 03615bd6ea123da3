#include "ppsim/core/ir/ids.hpp"

bool same(ppsim::StageId a, ppsim::StageId b, ppsim::MicrobatchId microbatch) {
#ifdef PPSIM_MISTAKE
  return a == microbatch && b.valid();
#else
  return a == b && microbatch.valid();
#endif
}

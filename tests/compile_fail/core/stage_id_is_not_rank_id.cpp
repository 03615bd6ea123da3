#include "ppsim/core/ir/ids.hpp"

ppsim::RankId rank_of(ppsim::StageId stage) {
#ifdef PPSIM_MISTAKE
  return stage;
#else
  return ppsim::RankId(stage.value());
#endif
}

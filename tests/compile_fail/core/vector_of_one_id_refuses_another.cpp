#include "ppsim/core/ir/ids.hpp"

int at(const ppsim::IdVector<ppsim::RankId, int>& by_rank, ppsim::RankId rank, ppsim::StageId stage) {
#ifdef PPSIM_MISTAKE
  return by_rank[stage] + rank.value();
#else
  return by_rank[rank] + stage.value();
#endif
}

#pragma once

#include <string>

#include "ppsim/core/ir/ids.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {

inline std::string named(RankId rank) { return "rank " + std::to_string(rank.value()); }

/// Errors: throws BackendError in `what()`; nothing is put into words for what goes well, as all of a step
/// does.
template <class What>
void must_succeed(const NcclTable& nccl, int result, const What& what) {
  if (result != kNcclSuccess && result != kNcclInProgress) check_nccl(nccl, result, what());
}

/// Calls of one thread that NCCL takes together. None stays open: whatever the thread asks for next, the end
/// of a communicator too, would wait for the end of the group.
class NcclGroup {
 public:
  /// `rank`: whose calls they are, if of one.
  NcclGroup(const NcclTable& nccl, const char* what, RankId rank = RankId())
      : nccl_(nccl), what_(what), rank_(rank) {
    must_succeed(nccl_, nccl_.group_start(), [this] { return text(); });
    open_ = true;
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (open_) nccl_.group_end();
  }
  void end() {
    open_ = false;
    must_succeed(nccl_, nccl_.group_end(), [this] { return text(); });
  }

 private:
  [[nodiscard]] std::string text() const { return (rank_.valid() ? named(rank_) + ": " : "") + what_; }

  const NcclTable& nccl_;
  const char* what_;
  RankId rank_;
  bool open_ = false;
};

}  // namespace ppsim::gpu_backend

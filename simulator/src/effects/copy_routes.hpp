#pragma once

#include <vector>

#include "activities.hpp"
#include "ppsim/core/ir/ids.hpp"
#include "ppsim/simulator/effects/pipeline_copies.hpp"

namespace ppsim::simulator {

/// A user of links: the message of a rank to another one of its copy, or what the GPUs of a rank, the copies
/// of some ranks, or some ranks of one copy do together.
struct Way {
  enum class What : std::uint8_t { message, tensor, data, ranks };
  What what = What::message;
  std::vector<RankId> ranks;  ///< of a message: sender, receiver
  friend auto operator<=>(const Way&, const Way&) = default;
};

/// The links of a network, and what each copy of a pipeline takes of them.
class CopyLinks {
 public:
  /// Keeps references.
  CopyLinks(const PipelineCopies& copies, const GpuNetwork& network, int ranks);

  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  /// The links that one copy takes for its part of a way, in the same order for every copy.
  [[nodiscard]] std::vector<LinkTake> own(const Way& way, int copy) const;

 private:
  [[nodiscard]] int gpu(RankId rank, int copy) const;
  [[nodiscard]] bool share_domain(const std::vector<int>& gpus) const;
  [[nodiscard]] std::vector<int> members(const Way& way, int copy) const;
  void take(std::vector<LinkTake>& takes, int gpu, bool outward, bool nvlink) const;
  [[nodiscard]] bool passes_core(const std::vector<int>& gpus) const;

  const PipelineCopies& copies_;
  const GpuNetwork& network_;
  int ranks_;
  std::vector<Link> links_;
  std::uint32_t first_nic_ = 0;
};

/// The routes of ways: those of way w begin at w times the copies that are simulated.
struct CopyRoutes {
  Routes routes;
  CopyGrid grid;  ///< of the copies that are simulated
};

/// Folds all copies, or those of a tensor-parallel group, where `folding` lets it and they are equal.
[[nodiscard]] CopyRoutes copy_routes(const CopyLinks& links, const std::vector<Way>& ways,
                                     const PipelineCopies& copies, Folding folding);

}  // namespace ppsim::simulator

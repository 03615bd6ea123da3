#pragma once

#include <cstdint>
#include <map>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// An exchange between the GPUs of a rank during an action, such as the all-reduces of tensor parallelism.
struct TensorExchange {
  int count = 0;         ///< spread evenly over the action, and part of its cost
  Nanoseconds each = 0;  ///< on links that nothing else uses
  /// Each runs beside its part of the computation, which waits only for one that takes longer. Otherwise
  /// computation waits for each.
  bool beside = false;
  friend bool operator==(const TensorExchange&, const TensorExchange&) = default;
};

/// Whether copies that do the same are simulated once.
enum class Folding : std::uint8_t { where_equal, never };

/// All copies of a pipeline: a rank of the Program is one GPU of each.
struct PipelineCopies {
  int tensor = 1;   ///< GPUs that share the work of a rank
  int context = 1;  ///< groups of these that share its sequences
  int data = 1;     ///< pipelines of these
  std::map<CostClass, TensorExchange> exchanges;
  /// The reduction after the last action of a rank, over all its copies; empty: none.
  IdVector<RankId, Nanoseconds> reductions;
  Folding folding = Folding::where_equal;

  [[nodiscard]] int size() const { return tensor * context * data; }
};

/// The GPUs of a cluster that the copies use, from 0 on, and the network between them. Each has NVLink into
/// its domain and its share of the NICs of its node, in both directions; alone it has full speed on either.
struct GpuNetwork {
  int node = 8;                  ///< GPUs of a node
  int domain = 8;                ///< GPUs that NVLink connects
  int nics = 8;                  ///< of a node; divides its GPUs
  bool pipelines_apart = false;  ///< the ranks of a pipeline lie side by side (tp-cp-pp-dp), not the copies
                                 ///< of a rank (tp-cp-dp-pp)
  Rate core = 0;                 ///< of all traffic between nodes; 0: no limit
  bool rails = false;  ///< traffic between GPUs with the same place in their nodes does not pass the core
  friend bool operator==(const GpuNetwork&, const GpuNetwork&) = default;
};

/// A step of all copies.
struct CopiedRun {
  TimedTrace trace;          ///< of the first copy
  Nanoseconds makespan = 0;  ///< of the last copy
  Nanoseconds reduced = 0;   ///< the end of the last reduction, or of the last copy
  std::vector<Link> links;
  std::vector<LinkUse> uses;
  int simulated_copies = 0;         ///< that stand for all
  std::int64_t activities = 0;      ///< of the simulated copies: computations, transfers, exchanges, joins
  std::int64_t all_activities = 0;  ///< of all GPUs, each of which has its part of an exchange
};

/// A step of all copies of a pipeline event by event, in which everything that shares links slows each other
/// down. Where nothing does, times are those of simulate_trace.
///
/// Copies are folded where that changes nothing: where exchanging them, digit by digit of their numbers, maps
/// the links onto each other, every copy of an activity ends at the same time, because the rates of a network
/// do not depend on how its links are named. Then one copy is simulated, and takes as much of each link as
/// all copies together.
/// Requires: no residency limit. Errors: bad_argument for counts below 1, NICs that do not divide the GPUs of
/// a node, costs that do not fit in 64 bits; that a Program is stuck is an answer.
[[nodiscard]] Expected<tl::expected<CopiedRun, Stuck>> simulate_copies(const AnalyzedProgram& analyzed,
                                                                       const CostTable& costs,
                                                                       const PipelineCopies& copies,
                                                                       const GpuNetwork& network);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::CopiedRun;
using simulator::Folding;
using simulator::GpuNetwork;
using simulator::PipelineCopies;
using simulator::simulate_copies;
using simulator::TensorExchange;
}  // namespace ppsim

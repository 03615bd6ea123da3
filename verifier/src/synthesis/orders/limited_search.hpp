#pragma once

#include <functional>
#include <optional>

#include "synthesis/orders/order_search.hpp"

namespace ppsim::verifier::synthesis {

/// The search from neighbour to neighbour, whose best rows become the incumbent. A limit of activations is
/// counted exactly in the rows. What an order needs in bytes in the worst timing is estimated there, and the
/// verifier decides: what an order is over the limit, the rooms of the ranks become smaller, and the search
/// goes on within these.
class LimitedSearch {
 public:
  /// All outlive the search. `told` is called when the incumbent is better.
  LimitedSearch(const SynthesisRequest& request, const ChainModel& model, const Relaxation& relaxation,
                Incumbent& incumbent, std::function<void()> told);

  /// Simple lists, none needed where the incumbent is at most `enough`; at last one microbatch after the
  /// other.
  void make_lists(Slot enough);
  /// Until the incumbent is at most `enough` or the effort is over.
  void run(Slot enough, Effort& effort);
  /// Why there is no incumbent.
  [[nodiscard]] std::string why_none() const;

 private:
  bool take(const TaskRows& rows, const char* method);
  bool begin();
  void make_room_for_incumbent();
  [[nodiscard]] bool reached(Slot enough) const;

  const SynthesisRequest& request_;
  const ChainModel& model_;
  const Relaxation& relaxation_;
  Incumbent& incumbent_;
  std::function<void()> told_;
  Random random_;
  Rooms rooms_;
  std::optional<Shop> shop_;
  std::optional<OrderSearch> orders_;
  std::vector<Bytes> over_;  ///< by which the rows taken last are above the limit
};

}  // namespace ppsim::verifier::synthesis

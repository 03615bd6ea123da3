#pragma once

#include <algorithm>
#include <vector>

#include "ppsim/simulator/effects/shared_devices.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// The ranks that compute on each device now, and how fast that lets them be.
class DeviceLoads {
 public:
  /// Requires: `shared` outlives this.
  DeviceLoads(const SharedDevices& shared, int ranks)
      : shared_(shared),
        ranks_(ranks),
        loads_(static_cast<std::size_t>((ranks + shared.ranks - 1) / shared.ranks)) {}

  void begin(RankId rank) { change(rank, 1); }
  void end(RankId rank) { change(rank, -1); }

  /// Of `kFullSpeed`, what an action has while so many others compute; rounded down.
  [[nodiscard]] static Rate rate(const SharedDevices& shared, OpKind kind, int others) {
    const auto slowdown = shared.slowdowns.find(kind);
    const std::int64_t further = std::max(0, others - shared.undisturbed);
    if (slowdown == shared.slowdowns.end() || further == 0) return kFullSpeed;
    __extension__ using Wide = __int128;
    const Wide time = SharedDevices::kWhole + Wide{slowdown->second} * further;
    return std::max<Rate>(1, static_cast<Rate>(Wide{kFullSpeed} * SharedDevices::kWhole / time));
  }
  /// The same while communication of its own rank is in flight.
  [[nodiscard]] static Rate own_rate(const SharedDevices& shared, bool transfers, bool collectives) {
    const std::int64_t slowdown =
        std::max(transfers ? shared.own_transfers : 0, collectives ? shared.own_collectives : 0);
    __extension__ using Wide = __int128;
    return static_cast<Rate>(Wide{kFullSpeed} * SharedDevices::kWhole / (SharedDevices::kWhole + slowdown));
  }
  /// The part of one rate that the other leaves; never 0.
  [[nodiscard]] static Rate both(Rate one, Rate other) {
    __extension__ using Wide = __int128;
    return std::max<Rate>(1, static_cast<Rate>(Wide{one} * other / kFullSpeed));
  }
  [[nodiscard]] Rate own_rate(bool transfers, bool collectives) const {
    return own_rate(shared_, transfers, collectives);
  }
  /// Requires: the rank computes.
  [[nodiscard]] Rate rate(RankId rank, OpKind kind) const {
    return rate(shared_, kind, loads_[device_of(rank)].computing - 1);
  }

  /// Calls `f` with each rank of the devices whose number of computing ranks has changed since the last call.
  template <class F>
  void settle(F f) {
    for (const std::size_t device : changed_) {
      loads_[device].changed = false;
      const int first = static_cast<int>(device) * shared_.ranks;
      for (int r = first; r < std::min(first + shared_.ranks, ranks_); ++r) f(RankId(r));
    }
    changed_.clear();
  }

 private:
  struct Load {
    int computing = 0;
    bool changed = false;
  };
  [[nodiscard]] std::size_t device_of(RankId rank) const {
    return static_cast<std::size_t>(rank.value() / shared_.ranks);
  }
  void change(RankId rank, int by) {
    const std::size_t device = device_of(rank);
    loads_[device].computing += by;
    if (!loads_[device].changed) changed_.push_back(device);
    loads_[device].changed = true;
  }

  const SharedDevices& shared_;
  int ranks_;
  std::vector<Load> loads_;
  std::vector<std::size_t> changed_;
};

}  // namespace ppsim::simulator

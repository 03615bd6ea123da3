#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/ids.hpp"

namespace ppsim {

/// How much of a stage's forward runs again in its backward.
enum class Recompute : std::uint8_t {
  none,
  selective,  ///< the cheap parts, within B or W, from what is kept: other costs and sizes, same Program
  full,       ///< everything, from the stage's input, as an R
};
[[nodiscard]] std::string_view recompute_name(Recompute recompute);

/// Recompute of each stage: the same everywhere, or of the stages that a map names and none elsewhere.
class StageRecompute {
 public:
  StageRecompute(Recompute everywhere = Recompute::none)  // NOLINT(google-explicit-constructor)
      : everywhere_(everywhere) {}
  explicit StageRecompute(const std::map<StageId, Recompute>& stages);

  [[nodiscard]] Recompute operator()(StageId stage) const;
  /// Whether some stage recomputes so much.
  [[nodiscard]] bool any(Recompute choice) const;
  /// The stages that a map named, without those of Recompute::none.
  [[nodiscard]] const std::map<StageId, Recompute>& stages() const { return stages_; }

  friend bool operator==(const StageRecompute&, const StageRecompute&) = default;

 private:
  Recompute everywhere_ = Recompute::none;
  std::map<StageId, Recompute> stages_;
};
/// "none", "selective", "full", or "stages=0:full,2:selective".
std::ostream& operator<<(std::ostream& out, const StageRecompute& recompute);
/// Reads the same; a stage alone, "stages=0,2", stands for full.
/// Errors: bad_argument naming the possible values.
[[nodiscard]] Expected<StageRecompute> recompute_from_text(std::string_view text);

/// Which saved activations wait in host memory for their backward.
struct Offload {
  int percent = 0;              ///< of those that a rank could offload, the longest waits first; 0: none
  std::vector<StageId> stages;  ///< only of these; empty: of all

  [[nodiscard]] bool on() const { return percent > 0; }
  friend bool operator==(const Offload&, const Offload&) = default;
};
/// "none", "all", "half", "25%", "stages=0,1".
std::ostream& operator<<(std::ostream& out, const Offload& offload);
/// Errors: bad_argument naming the possible values.
[[nodiscard]] Expected<Offload> offload_from_text(std::string_view text);

}  // namespace ppsim

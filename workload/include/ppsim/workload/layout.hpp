#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::workload {

/// The part of a language model that one stage holds.
struct StageContents {
  bool embedding = false;
  std::int64_t layers = 0;  ///< transformer layers
  std::int64_t mtp = 0;     ///< multi-token prediction layers
  bool loss = false;        ///< final norm, head and loss

  friend bool operator==(const StageContents&, const StageContents&) = default;
};

/// How a model is cut into the stages of a chain, in its order. A stage may be empty.
struct PipelineLayout {
  std::vector<StageContents> stages;

  [[nodiscard]] std::int64_t layers() const;
  [[nodiscard]] std::int64_t mtp() const;
  friend bool operator==(const PipelineLayout&, const PipelineLayout&) = default;
};

/// Megatron's layout string. Runs of three and more are written with a star, as in `Et*3|(tt|)*29,m|L`.
[[nodiscard]] std::string layout_text(const PipelineLayout& layout);
std::ostream& operator<<(std::ostream& out, const PipelineLayout& layout);

/// Reads Megatron's layout string: `E` embedding, `t` transformer layer, `m` multi-token prediction layer,
/// `L` loss, `|` a stage boundary, `x*n` and `(...)*n` repetition, commas between items for the eye. Errors:
/// bad_argument with the column (file is "layout"): a text that is no layout, nested parentheses,
/// letters out of the order E, t, m, L, a first stage without E or a last one without L.
/// Source: Megatron-LM, --pipeline-model-parallel-layout.
[[nodiscard]] Expected<PipelineLayout> parse_layout(std::string_view text);

/// The same number of layers on every stage, one more on the earlier ones where that does not divide.
/// Requires: stages >= 1.
[[nodiscard]] PipelineLayout even_layout(std::int64_t layers, int stages);

/// Times that a cut has to balance. Units: nanoseconds of one microbatch, forward and backward together.
struct LayoutTimes {
  Nanoseconds embedding = 0;
  std::vector<Nanoseconds> layers;
  Nanoseconds loss = 0;
};

/// Of the layouts whose slowest stage is as fast as can be, the one with the least sum of squared numbers of
/// layers; where that ties, with fewer layers on earlier stages, whose ranks keep more activations.
/// Requires: stages >= 1, times >= 0.
/// Source: the partition of AdaPipe (Sun et al., ASPLOS 2024), exactly and without its choice of
/// recomputation. Llama 3 (2407.21783, section 3.3.2) takes a layer each off the first and the last stage; so
/// does this there.
[[nodiscard]] PipelineLayout balanced_layout(const LayoutTimes& times, int stages);

/// Errors: bad_argument when the layout is not for this many stages or layers, or breaks a rule of
/// parse_layout.
[[nodiscard]] Expected<void> check_layout(const PipelineLayout& layout, std::int64_t layers, int stages);

}  // namespace ppsim::workload

namespace ppsim {
using workload::balanced_layout;
using workload::check_layout;
using workload::even_layout;
using workload::layout_text;
using workload::LayoutTimes;
using workload::parse_layout;
using workload::PipelineLayout;
using workload::StageContents;
}  // namespace ppsim

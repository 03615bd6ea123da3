#pragma once

#include "ppsim/planner/validate.hpp"
#include "sheet.hpp"

namespace ppsim::planner {

/// A run as the cells of a row give it.
struct GivenRun {
  std::string model, system, precision, schedule, recompute, layout, stack;
  std::optional<int> gpus, global_batch, microbatch, sequence, tensor, pipeline;
  std::optional<int> chunks, context, expert, fsdp;  ///< 1 and 0 where nothing is given
};

/// The run of a row whose columns are called by the options of Megatron-LM, but for two that tables call by
/// names of their own.
[[nodiscard]] GivenRun given_by_options(SheetRow& row, std::string_view gpus, std::string_view sequence);

/// With small letters for capital ones.
[[nodiscard]] std::string lower_case(std::string text);

/// The fields read from columns of these names wherever they are: schedule, recompute, layout and stack,
/// which is `usual` where it says nothing.
void read_software(SheetRow& row, const std::string& usual, GivenRun& given);

/// The run, or why it cannot be one.
[[nodiscard]] std::variant<RunDescription, StageRun, NotRun> described(const GivenRun& given);

/// The shape that a source calls so: a preset by any of its usual names, or gpt-... with its shape, as in
/// `gpt-1.7b[layers=24,hidden=2304,heads=24,vocab=51200]`; as in `--model`, a colon may stand for brackets.
/// Nothing else has an unexpected, the reason.
[[nodiscard]] tl::expected<ModelDescription, std::string> model_called(const std::string& text);

/// The preset of a cluster that a source calls so.
[[nodiscard]] tl::expected<std::string, std::string> cluster_called(const std::string& text);

}  // namespace ppsim::planner

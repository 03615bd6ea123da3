#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/workload/layout.hpp"

namespace ppsim::planner {

/// A framework that trains with an exported schedule.
enum class Framework { torchtitan, megatron, maxtext };
/// Errors: bad_argument with the names that exist.
[[nodiscard]] Expected<Framework> framework_named(std::string_view name);

/// A file of an export, by its name in the folder.
struct ExportedFile {
  std::string name;
  std::string text;
};

/// The files that make a framework run a schedule, and what has to be known beside them.
struct Export {
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
};

/// torchtitan: a CSV, and its configuration as TOML and as Python. Megatron-LM and MaxText: flags, of the
/// schedules that they have.
/// `layers`: transformer layers of each stage; empty: the framework divides the model itself.
/// Errors: refused naming what the framework does not have; bad_argument for layers that are not one number
/// for each stage, or that it cannot be told.
[[nodiscard]] Expected<Export> export_for(Framework framework, const Schedule& schedule,
                                          const std::vector<int>& layers);

/// torchtitan's modules of each stage, the same in Python and TOML: [["tok_embeddings", "layers.0"],
/// ["layers.1", "norm", "lm_head"]]. Without layers of multi-token prediction, which it does not have.
[[nodiscard]] std::string torchtitan_modules(const PipelineLayout& layout);

}  // namespace ppsim::planner

namespace ppsim {
using planner::Export;
using planner::export_for;
using planner::ExportedFile;
using planner::Framework;
using planner::framework_named;
using planner::torchtitan_modules;
}  // namespace ppsim

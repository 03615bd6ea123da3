#pragma once

#include <string>
#include <vector>

#include "command_line/options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// The words of a command line with what `--job NAME` stands for in its place: --model, --cluster and how the
/// job is spread, each where the line does not say it itself. A line without --job, and one of a subcommand
/// that has none, is as it was.
/// Errors: bad_argument naming the jobs there are.
[[nodiscard]] Expected<std::vector<std::string>> with_job_words(const Command& program,
                                                                std::vector<std::string> words);

}  // namespace ppsim::cli

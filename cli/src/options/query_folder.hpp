#pragma once

#include <memory>
#include <optional>
#include <string>

#include "command.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"

namespace ppsim::cli {

/// A folder of the queries of one call as SMT-LIB files: 001-NAME.smt2, 002-NAME.smt2, ...
class QueryFolder {
 public:
  /// Errors: io where the folder cannot be made; bad_argument where it holds queries already, which would
  /// mix.
  [[nodiscard]] static Expected<std::shared_ptr<QueryFolder>> open(const std::string& path);

  /// Writes each query that it is told of. Requires: the folder outlives it.
  [[nodiscard]] QuerySink sink();
  /// Why nothing was asked, if it will be so.
  void explain(const std::string& reason) { reason_ = reason; }
  /// Says on stderr how many were written. Returns: `exit`, or the exit code of what could not be written.
  [[nodiscard]] int finish(int exit, const Output& output) const;

 private:
  explicit QueryFolder(std::string path) : path_(std::move(path)) {}
  void write(const SolverQuery& query);

  std::string path_;
  int count_ = 0;
  std::string reason_ = "no question needed a solver";
  std::optional<Error> failure_;  ///< the first
};

/// Runs `ask` with the sink of the folder `path`, or with none where `path` is empty.
/// Returns: the exit code.
[[nodiscard]] Expected<int> with_queries(
    const std::string& path, const Output& output,
    const std::function<Expected<int>(const std::shared_ptr<QueryFolder>&)>& ask);

/// The sink of a folder, if there is one.
[[nodiscard]] inline QuerySink sink_of(const std::shared_ptr<QueryFolder>& folder) {
  return folder ? folder->sink() : QuerySink();
}

/// Adds --smt2.
void add_query_option(Command& command, std::string& path);

}  // namespace ppsim::cli

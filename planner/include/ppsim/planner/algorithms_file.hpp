#pragma once

#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/gpu_backend/stage_model/algorithms.hpp"

namespace ppsim::planner {

/// Order: products as they were timed.
[[nodiscard]] std::string to_json(const Algorithms& algorithms);
/// Errors: bad_file with the place in the file, also for a product that is there twice.
[[nodiscard]] Expected<Algorithms> algorithms_from_json(std::string_view text, const std::string& file);

/// The algorithms of runs, and the file that keeps them from one run to the next.
class AlgorithmsFile {
 public:
  /// Reads the file, which need not be there yet. Errors: those of read_text_file and algorithms_from_json;
  /// io where it is not there and cannot be written.
  [[nodiscard]] static Expected<AlgorithmsFile> open(const std::string& path);

  [[nodiscard]] Algorithms& algorithms() { return algorithms_; }
  [[nodiscard]] bool empty() const { return algorithms_.products.empty(); }
  /// Writes what was added since it was opened. Errors: io naming the path and the reason.
  [[nodiscard]] Expected<void> keep();
  /// "25 products by the algorithms of FILE, 3 of them timed in this run".
  [[nodiscard]] std::string text() const;

 private:
  std::string path_;
  Algorithms algorithms_;
  std::size_t read_ = 0;  ///< products that the file had
};

}  // namespace ppsim::planner

namespace ppsim {
using planner::algorithms_from_json;
using planner::AlgorithmsFile;
}  // namespace ppsim

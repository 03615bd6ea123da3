#pragma once

#include <optional>
#include <string>
#include <vector>

#include "synthesis/chain_model.hpp"

namespace ppsim::verifier::synthesis {

/// The tasks of each rank in the order in which it runs them, numbered as in ChainModel.
using TaskRows = std::vector<std::vector<int>>;

/// The rows of start times by task.
[[nodiscard]] TaskRows rows_of(const ChainModel& model, const std::vector<Slot>& starts);

/// How rows were found and, where start times came with them, the objective that these promise.
struct Found {
  std::string method;
  std::optional<Nanoseconds> promised;
};

/// The best schedule so far. Every offered schedule is rebuilt, timed and counted again.
class Incumbent {
 public:
  /// Requires: check_request(request), limit >= 1. The request outlives the incumbent.
  explicit Incumbent(const SynthesisRequest& request) : request_(request) {}

  /// A schedule from elsewhere: passed over when it is of another chain, over the limit or no better.
  void offer_known(const Schedule& schedule);
  /// Rows that were made for the request. Returns: by how many bytes each rank is above a limit in bytes in
  /// the worst timing; where there is one, they count for nothing. Errors: throws CheckFailure where they are
  /// no schedule, over a limit of activations, or later than promised.
  std::vector<Bytes> offer(const TaskRows& rows, const Found& found);

  [[nodiscard]] bool empty() const { return !schedule_; }
  [[nodiscard]] Nanoseconds value() const { return value_; }
  [[nodiscard]] const Schedule& schedule() const { return *schedule_; }
  [[nodiscard]] const std::string& method() const { return method_; }
  /// The tasks of the schedule, whose microbatches may come in another order.
  [[nodiscard]] TaskRows rows() const;

 private:
  void keep(const Schedule& schedule, Nanoseconds value, const std::string& method);
  [[nodiscard]] bool has_form(const Schedule& schedule) const;

  const SynthesisRequest& request_;
  std::optional<Schedule> schedule_;
  Nanoseconds value_ = 0;
  std::string method_;
};

}  // namespace ppsim::verifier::synthesis

#pragma once

#include <vector>

#include "backend_choice.hpp"
#include "model_options.hpp"

namespace ppsim::cli {

/// The options that `profile` and `predict` share: programs of a transformer, run in one process on a device
/// that computes.
struct Measurement {
  InputOptions input;
  ModelOptions model;
  BackendChoice device;
  int steps = 0;
};

/// All of it but what is run; `steps` says what the steps are for.
void add_measurement_options(Command& command, Measurement& measurement, const std::string& steps);

/// How the programs are run, once the device is there.
/// Errors: bad_argument for an emulated device, several processes, and what the device does not have.
[[nodiscard]] Expected<RunOptions> open_measurement(const Measurement& measurement);
/// Of the Program with the most ranks.
[[nodiscard]] int max_ranks(const std::vector<Program>& programs);

}  // namespace ppsim::cli

#include "measurement.hpp"

#include <algorithm>

#include "command_line/validators.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "processes/several_processes.hpp"

namespace ppsim::cli {
namespace {

const std::string kOfSeveral = "ppsim run --costs-out FILE, which measures several";

Expected<void> check(const Measurement& measurement) {
  if (measurement.device.backend == "emulated") {
    return make_error(ErrorCode::bad_argument, "an emulated device takes what costs say: nothing is measured",
                      {.found = "emulated", .expected = "cpu or cuda"});
  }
  if (measurement.device.transport == "mpi") {
    return make_error(
        ErrorCode::bad_argument, "this measures within one process",
        {.found = "mpi",
         .expected = "--transport inproc, or nccl or copy with --backend cuda; or " + kOfSeveral});
  }
  return check_alone("a start without a launcher: this measures within one process; or " + kOfSeveral);
}

}  // namespace

void add_measurement_options(Command& command, Measurement& measurement, const std::string& steps) {
  add_parameter_options(command, measurement.input);
  add_dialect_option(command, measurement.input.dialect);
  command.add_option("--backend", measurement.device.backend, "cpu or cuda").show_default();
  command.add_option("--transport", measurement.device.transport, "for cuda nccl or copy").show_default();
  add_gpu_options(command, measurement.device);
  add_buffer_option(command, measurement.device);
  add_model_options(command, measurement.model);
  command.add_option("--steps", measurement.steps, steps).show_default().check(whole(2, 100000));
}

int max_ranks(const std::vector<Program>& programs) {
  int ranks = 0;
  for (const Program& program : programs) ranks = std::max(ranks, program.pipeline().ranks());
  return ranks;
}

Expected<RunOptions> open_measurement(const Measurement& measurement) {
  PPSIM_RETURN_IF_ERROR(check(measurement));
  PPSIM_RETURN_IF_ERROR(check_choice(measurement.device));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities, buffers_from_text(measurement.device.buffers));
  RunOptions run{.capabilities = capabilities, .steps = measurement.steps, .gradients = false};
  if (measurement.device.backend == "cuda") run.backend = cuda_options(measurement.device);
  run.capabilities = capabilities_of(run);
  return run;
}

}  // namespace ppsim::cli

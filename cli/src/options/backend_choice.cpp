#include "backend_choice.hpp"

#include <cstdlib>

#include "command_line/validators.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::cli {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Expected<void> check_transport(const BackendChoice& choice) {
  const std::string& transport = choice.transport;
  if (choice.backend == "cuda") {
    if (transport == "nccl" && choice.ranks_per_device > 1) {
      return make_error(ErrorCode::bad_argument, "NCCL has one rank on a device",
                        {.found = "--ranks-per-device " + std::to_string(choice.ranks_per_device),
                         .expected = "--transport copy"});
    }
    if (transport == "nccl" || transport == "copy" || transport == "inproc") return {};
    return make_error(ErrorCode::bad_argument, "the CUDA backend moves data with NCCL or by copies",
                      {.found = transport, .expected = "--transport nccl or copy"});
  }
  const char* of_cuda = choice.graphs                 ? "--graphs"
                        : choice.ranks_per_device > 1 ? "--ranks-per-device"
                        : choice.no_profile           ? "--no-profile"
                        : !choice.algorithms.empty()  ? "--algorithms"
                                                      : nullptr;
  if (of_cuda != nullptr)
    return make_error(ErrorCode::bad_argument,
                      "graphs, parts of a device, algorithms and events per action are of CUDA",
                      {.found = of_cuda, .expected = "--backend cuda"});
  if (choice.attention != "auto") {
    return make_error(ErrorCode::bad_argument, "what computes attention is a choice on GPUs only",
                      {.found = "--attention " + choice.attention, .expected = "--backend cuda"});
  }
  if (transport == "inproc" || transport == "mpi") return {};
  return make_error(ErrorCode::bad_argument,
                    "this backend moves data between threads of one process, or between processes by MPI",
                    {.found = transport, .expected = "--transport inproc or mpi"});
}

Expected<void> cannot_run(const BackendChoice& choice, const std::string& why) {
  return make_error(ErrorCode::bad_argument, "the backend cannot run here: " + why,
                    {.found = choice.backend, .expected = "a backend that `ppsim doctor` has"});
}

}  // namespace

void add_gpu_options(Command& command, BackendChoice& choice) {
  command
      .add_option("--ranks-per-device", choice.ranks_per_device,
                  "cuda: so many ranks share a device, each with its part of the multiprocessors")
      .check(count());
  command.add_flag("--graphs", choice.graphs,
                   "cuda: a step is one CUDA graph per rank, with copies one of all ranks");
  command
      .add_option("--attention", choice.attention,
                  "cuda: auto, cudnn (its flash attention, in bf16 and fp8) or gemm (products and a softmax)")
      .show_default()
      .check(one_of({"auto", "cudnn", "gemm"}));
  command
      .add_option("--algorithms", choice.algorithms,
                  "cuda: FILE.json with the fastest of cuBLASLt's algorithms for each product; products that "
                  "it lacks are timed before the first step, and added (default: its first suggestion)")
      .check(side_file({".json"}));
}

void add_buffer_option(Command& command, BackendChoice& choice) {
  command.add_option("--buffers", choice.buffers, "rendezvous, or messages that a channel buffers")
      .show_default();
}

Expected<void> check_choice(const BackendChoice& choice) {
  if (choice.backend == "cpu" || choice.backend == "emulated" || choice.backend == "cuda")
    return check_transport(choice);
  const char* meant = choice.backend == "gpu" ? " (did you mean \"cuda\"?)" : "";
  return make_error(ErrorCode::bad_argument, std::string("unknown backend") + meant,
                    {.found = choice.backend, .expected = "cpu, emulated or cuda"});
}

Expected<void> open_backend(const BackendChoice& choice) {
  PPSIM_RETURN_IF_ERROR(check_choice(choice));
  if (choice.backend != "cuda") return {};
  auto libraries = check_libraries(cuda_options(choice));
  if (!libraries && libraries.error().code == ErrorCode::bad_argument) return libraries;
  for (const BackendStatus& status : backend_statuses()) {
    if (status.name == choice.backend && !status.available) return cannot_run(choice, status.detail);
  }
  return libraries ? libraries : cannot_run(choice, libraries.error().message);
}

Expected<void> check_algorithms(const BackendChoice& choice) {
  return RunAlgorithms::open(choice).map([](const RunAlgorithms&) {});
}

Expected<RunAlgorithms> RunAlgorithms::open(const BackendChoice& choice, bool first_process) {
  RunAlgorithms made;
  if (choice.algorithms.empty()) return made;
  if (!first_process) {
    made.others_.emplace();
    return made;
  }
  PPSIM_ASSIGN_OR_RETURN(made.file_, AlgorithmsFile::open(choice.algorithms));
  return made;
}

void RunAlgorithms::give_to(RunOptions& run) {
  if (file_) {
    run.algorithms = &file_->algorithms();
    run.algorithm_added = [this] { static_cast<void>(keep()); };  // a failure comes again at the end
  }
  if (others_) run.algorithms = &*others_;
}

std::string RunAlgorithms::added_to(const std::string& kernels) const {
  if (!file_ || file_->empty()) return kernels;
  return kernels + (kernels.empty() ? "" : ", ") + file_->text();
}

CudaOptions cuda_options(const BackendChoice& choice) {
  const bool shares = choice.ranks_per_device > 1 && choice.transport == "inproc";
  return {.transport = shares || choice.transport == "copy" ? CudaTransport::copy : CudaTransport::nccl,
          .ranks_per_device = choice.ranks_per_device,
          .graphs = choice.graphs,
          .profile = !choice.no_profile,
          .one_hardware_queue = environment("CUDA_DEVICE_MAX_CONNECTIONS") == "1"};
}

}  // namespace ppsim::cli

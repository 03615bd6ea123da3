#include "ppsim/workload/job.hpp"

#include <array>

#include "ppsim/core/text/nearest.hpp"

namespace ppsim::workload {
namespace {

// Sources: JaxPP's own benchmark configurations (NVIDIA/jaxpp, its compile tests): microbatches of two
// sequences, since 256 / (DP4 x 32) and 128 / (DP4 x 16) are 2. NeMo's GPT-3 on the same GPUs
// (NVIDIA/dgxc-benchmarking v25.02), of which a measured step is known, 8.309 s.
const auto kJobs = std::to_array<TrainingJob>({
    {.name = "jaxpp-gpt3-175b",
     .schedule = "interleaved-1f1b:chunks=6",
     .model = "gpt3-175b",
     .cluster = "dgx-h100",
     .nodes = 16,
     .parallelism = {.tensor = 4,
                     .pipeline = 8,
                     .data = 4,
                     .microbatch_size = 2,
                     .global_batch_size = 256,
                     .sequence = 2048},
     .source = "NVIDIA/jaxpp"},
    {.name = "jaxpp-llama2-70b",
     .schedule = "interleaved-1f1b:chunks=10",
     .model = "llama2-70b",
     .cluster = "dgx-h100",
     .nodes = 8,
     .parallelism = {.tensor = 4,
                     .pipeline = 4,
                     .data = 4,
                     .microbatch_size = 2,
                     .global_batch_size = 128,
                     .sequence = 2048},
     .source = "NVIDIA/jaxpp"},
    {.name = "nemo-gpt3-175b",
     .schedule = "interleaved-1f1b:chunks=6",
     .model = "gpt3-175b",
     .cluster = "dgx-h100",
     .nodes = 16,
     .parallelism = {.tensor = 4,
                     .pipeline = 8,
                     .data = 4,
                     .microbatch_size = 1,
                     .global_batch_size = 256,
                     .sequence = 2048},
     .source = "NVIDIA/dgxc-benchmarking v25.02"},
});

}  // namespace

std::span<const TrainingJob> job_presets() { return kJobs; }

Expected<TrainingJob> job_from_name(std::string_view name) {
  for (const TrainingJob& job : kJobs) {
    if (job.name == name) return job;
  }
  return tl::unexpected(unknown_name("unknown job", name, names_in(kJobs)));
}

}  // namespace ppsim::workload

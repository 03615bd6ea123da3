#include "sbatch.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "command_line/shell_words.hpp"

namespace ppsim::cli {
namespace {

/// A job name of plain characters.
std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.'; }, '_');
  return name;
}

/// The command line without the options that are of the script.
std::string command_line(const SlurmJob& job, const std::vector<std::string>& arguments) {
  constexpr std::string_view kSpread = "--ranks-per-node";
  std::string line = "ppsim";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = std::string_view(arguments[i]).substr(0, arguments[i].find('='));
    if (arguments[i] == kSpread) ++i;  // its value is the next word
    if (name != "--emit-sbatch" && name != kSpread) line += " " + shell_word(arguments[i]);
  }
  if (!job.on_gpus && !job.transport_given) line += " --transport mpi";
  return line;
}

/// The environment that CUDA needs before it starts; docs/run.md says why.
constexpr std::string_view kGpuEnvironment =
    "# Kernels of many queues run side by side.\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=32\n";

constexpr std::string_view kMeetingPlace =
    "# Where the processes meet.\n"
    "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n"
    "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))\n"
    "export MASTER_ADDR MASTER_PORT\n";

/// How the job is spread: a process for each rank, or one process for all.
Expected<std::string> request(const SlurmJob& job) {
  constexpr int kUsual = 8;
  const int each = job.ranks_per_node.value_or(std::min(job.ranks, kUsual));
  if (job.ranks % each != 0 || (job.one_process && job.ranks > each)) {
    return make_error(ErrorCode::bad_argument,
                      job.one_process ? "copies join the ranks of one node"
                                      : "the ranks cannot be spread evenly over nodes",
                      {.found = std::to_string(job.ranks) + " ranks, " + std::to_string(each) + " on a node",
                       .expected = job.one_process ? "--ranks-per-node with all ranks"
                                                   : "--ranks-per-node with a divisor of the ranks"});
  }
  std::ostringstream text;
  text << "#SBATCH --nodes=" << job.ranks / each << '\n'
       << "#SBATCH --ntasks=" << (job.one_process ? 1 : job.ranks) << '\n'
       << "#SBATCH --ntasks-per-node=" << (job.one_process ? 1 : each) << '\n';
  if (job.on_gpus)
    text << "#SBATCH --gpus-per-node=" << (each + job.ranks_per_gpu - 1) / job.ranks_per_gpu << '\n';
  return text.str();
}

}  // namespace

Expected<std::string> sbatch_script(const SlurmJob& job, const std::vector<std::string>& arguments) {
  auto requested = request(job);
  if (!requested) return requested;
  std::ostringstream text;
  text << "#!/usr/bin/env bash\n"
       << "#SBATCH --job-name=" << plain_name("ppsim-" + job.name) << '\n'
       << *requested << "#SBATCH --output=%x-%j.out\n"
       << "#SBATCH --time=00:30:00\n"
       << "set -euo pipefail\n\n"
       << (job.on_gpus ? kGpuEnvironment : "") << (job.on_gpus && !job.one_process ? "\n" : "")
       << (job.one_process ? "" : kMeetingPlace) << "\n# The first process that fails ends all.\n"
       << "srun --kill-on-bad-exit=1" << (job.on_gpus ? "" : " --mpi=pmix") << ' '
       << command_line(job, arguments) << '\n';
  return text.str();
}

}  // namespace ppsim::cli

#include "agreement.hpp"

#include <array>
#include <span>
#include <sstream>
#include <vector>

#include "bytes.hpp"
#include "ppsim/core/ir/hash.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string options_text(const RunOptions& options) {
  std::ostringstream text;
  text.precision(17);
  text << backend_name(options.backend);
  if (const auto* emulated = std::get_if<EmulatedOptions>(&options.backend))
    text << " in the time of " << costs_hash(emulated->costs);
  if (options.action_times) {
    const std::vector<Nanoseconds> times = options.action_times(0);
    text << ", actions in the times of " << bytes_hash(std::as_bytes(std::span(times)));
  }
  if (const auto* cuda = std::get_if<CudaOptions>(&options.backend))
    text << (cuda->graphs ? " by graphs" : " streamed")
         << (cuda->transport == CudaTransport::nccl ? " over NCCL" : " by copies") << " of " << cuda->max_ctas
         << " blocks" << (cuda->profile ? ", profiled" : "");
  text << ", " << options.capabilities << ", " << options.steps << " steps, traces of " << options.kept_traces
       << ", clipped to " << options.clip_norm << (options.gradients ? ", with gradients" : "")
       << (options.unverified ? ", unverified" : "")
       << (options.certificate != nullptr ? ", with a certificate" : "")
       << (options.poison ? ", poisoned" : "")
       << (options.algorithms != nullptr ? ", with the fastest algorithms" : "");
  return text.str();
}

constexpr std::array kNames = {"another backend", "another program", "another model", "other tensor sizes",
                               "other options"};
using Fingerprint = std::array<std::string, kNames.size()>;

Fingerprint fingerprint_of(const std::string& bytes) {
  ByteReader reader(bytes);
  Fingerprint result;
  for (std::string& text : result) text = reader.get_text();
  return result;
}

Expected<void> compare(const std::vector<std::string>& all) {
  const Fingerprint first = fingerprint_of(all.front());
  for (std::size_t process = 1; process < all.size(); ++process) {
    const Fingerprint other = fingerprint_of(all[process]);
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (other[i] == first[i]) continue;
      return make_error(ErrorCode::refused, "process " + std::to_string(process) + " is about to run with " +
                                                kNames[i] + " than process 0: " + other[i] + " and not " +
                                                first[i]);
    }
  }
  return {};
}

}  // namespace

Expected<void> agree(const Program& program, const ModelIdentity& model, const RunOptions& options) {
  if (options.processes == nullptr) return {};
  ByteWriter writer;
  const Fingerprint own{std::string(backend_name(options.backend)), program_hash(program), model.text,
                        sizes_hash(model.sizes), options_text(options)};
  for (const std::string& text : own) writer.put_text(text);
  PPSIM_ASSIGN_OR_RETURN(const auto all, options.processes->allgather(writer.take(), timeout_of(options)));
  return compare(all);
}

Expected<RankRange> ranks_here(const Program& program, const RunOptions& options) {
  const int ranks = program.pipeline().ranks();
  if (options.processes == nullptr) return RankRange{0, ranks};
  const int processes = options.processes->size();
  if (ranks % processes != 0) {
    return make_error(
        ErrorCode::bad_argument, "the processes cannot have equally many ranks",
        {.found = std::to_string(ranks) + " ranks on " + std::to_string(processes) + " processes",
         .expected = "as many ranks as processes, or a multiple"});
  }
  const int each = ranks / processes;
  const int first = options.processes->process() * each;
  return RankRange{first, first + each};
}

std::string process_text(int process, RankRange ranks) {
  const std::string first = std::to_string(ranks.begin);
  const std::string last = std::to_string(ranks.end - 1);
  return "process " + std::to_string(process) +
         (first == last ? " (rank " + first + ")" : " (ranks " + first + " to " + last + ")");
}

}  // namespace ppsim::gpu_backend

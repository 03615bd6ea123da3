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

/// An answer to the others: why this process cannot run, or what it is about to run.
using Answer = tl::expected<Fingerprint, Error>;

std::string bytes_of(const Answer& answer) {
  ByteWriter writer;
  writer.put(answer.has_value());
  if (answer) {
    for (const std::string& text : *answer) writer.put_text(text);
  } else {
    writer.put(answer.error().code).put_text(to_string(answer.error()));
  }
  return writer.take();
}

Answer answer_of(const std::string& bytes) {
  ByteReader reader(bytes);
  if (!reader.get<bool>()) {
    const auto code = reader.get<ErrorCode>();
    return make_error(code, std::string(reader.get_text()));
  }
  Fingerprint result;
  for (std::string& text : result) text = reader.get_text();
  return result;
}

Expected<void> compare(const std::vector<std::string>& all) {
  std::vector<Fingerprint> found;
  for (std::size_t process = 0; process < all.size(); ++process) {
    const Answer answer = answer_of(all[process]);
    if (!answer) {
      return make_error(answer.error().code,
                        "process " + std::to_string(process) + ": " + answer.error().message);
    }
    found.push_back(*answer);
  }
  const Fingerprint& first = found.front();
  for (std::size_t process = 1; process < found.size(); ++process) {
    const Fingerprint& other = found[process];
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

Expected<void> agree(const Expected<void>& checked, const RunIdentity& run, const RunOptions& options) {
  if (options.processes == nullptr) return checked;
  const Answer own = checked.map([&] {
    return Fingerprint{std::string(backend_name(options.backend)), program_hash(run.program), run.model,
                       sizes_hash(run.sizes), options_text(options)};
  });
  const auto all = options.processes->allgather(bytes_of(own), timeout_of(options));
  if (!all) end_together(options.processes, &all.error());
  if (!checked) return checked;
  return all ? compare(*all) : tl::unexpected(all.error());
}

Expected<LocalRanks> ranks_here(const Program& program, const RunOptions& options) {
  const int ranks = program.pipeline().ranks();
  if (options.processes == nullptr) return LocalRanks{0, ranks};
  const int processes = options.processes->size();
  if (ranks % processes != 0) {
    return make_error(
        ErrorCode::bad_argument, "the processes cannot have equally many ranks",
        {.found = std::to_string(ranks) + " ranks on " + std::to_string(processes) + " processes",
         .expected = "as many ranks as processes, or a multiple"});
  }
  const int each = ranks / processes;
  const int first = options.processes->process() * each;
  return LocalRanks{first, first + each};
}

std::string process_text(int process, LocalRanks ranks) {
  const std::string first = std::to_string(ranks.begin);
  const std::string last = std::to_string(ranks.end - 1);
  return "process " + std::to_string(process) +
         (first == last ? " (rank " + first + ")" : " (ranks " + first + " to " + last + ")");
}

void end_together(Bootstrap* processes, const Error* error) {
  if (processes == nullptr) return;
  if (error != nullptr)
    processes->stop({error->code, "process " + std::to_string(processes->process()) + ": " + error->message});
  // Nobody waits for this run any more; the next one starts afresh, unless somebody is gone for good.
  static_cast<void>(processes->resume());
}

}  // namespace ppsim::gpu_backend

#include <algorithm>
#include <iostream>

#include "command.hpp"
#include "input/communicators.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct CheckCertificateOptions {
  std::string program, certificate;
  CostOptions costs;
  std::string transport, memory_limit, target, policy;
};

Expected<Certificate> read_certificate(const std::string& path) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(path));
  return certificate_from_json(text, path);
}

/// Whether a stage is spread over devices, so that computation launches collectives.
std::string parallelism_text(const Parallelism& parallelism) {
  std::string text;
  for (const auto& [option, count] : {std::pair<const char*, int>("--tp", parallelism.tensor),
                                      {"--cp", parallelism.context},
                                      {"--ep", parallelism.expert}}) {
    if (count > 1) text += std::string(text.empty() ? "" : " ") + option + " " + std::to_string(count);
  }
  return text;
}

/// Why a certificate does not hold on a transport, and what would.
std::string why_not_on(const Certificate& certificate, const TransportCapabilities& asked,
                       const CheckCertificateOptions& options) {
  const bool launched = certificate.capabilities.launches.compute;
  if (!launches_like(options.transport, certificate.capabilities) || launched == asked.launches.compute)
    return "the certificate is for another transport; verify with --transport " + options.transport;
  if (launched) {
    return "the certificate is for computation that launches collectives, and here it launches none; give "
           "the "
           "--tp, --cp or --ep that it was made with";
  }
  return "the certificate is for computation that launches no collectives, and with " +
         parallelism_text(options.costs.parallelism) + " it does; verify with --transport " +
         options.transport + ", --model and " + parallelism_text(options.costs.parallelism);
}

/// Whether a valid certificate holds on the transport that is asked about, too.
Expected<void> check_transport(const Certificate& certificate, const Program& program, const SizeTable* sizes,
                               const CheckCertificateOptions& options) {
  if (options.transport.empty() && options.target.empty()) return {};
  PPSIM_ASSIGN_OR_RETURN(const auto asked,
                         options.target.empty()
                             ? capabilities_of({.name = options.transport}, options.costs.parallelism)
                             : Expected<TransportCapabilities>(target_capabilities()));
  if (check_carries_over(asked, certificate, program, sizes)) return {};
  const std::string why = options.target.empty()
                              ? why_not_on(certificate, asked, options)
                              : "the certificate is not for the transport of " + options.target +
                                    "; verify with --for " + options.target;
  return make_error(ErrorCode::refused, why,
                    {.file = options.certificate,
                     .found = transport_line(certificate.capabilities),
                     .expected = transport_line(asked)});
}

/// The limit that the bounds are held against; nothing: none was given.
Expected<std::optional<Bytes>> limit_of(const Certificate& certificate,
                                        const CheckCertificateOptions& options) {
  if (options.memory_limit.empty()) return std::nullopt;
  if (certificate.memory.empty()) {
    return make_error(ErrorCode::bad_argument, "the certificate bounds no memory, so no limit can be checked",
                      {.file = options.certificate,
                       .found = "--memory-limit " + options.memory_limit,
                       .expected = "a certificate of verify with COSTS that give sizes"});
  }
  return parse_size(options.memory_limit).map([](Bytes limit) { return std::optional(limit); });
}

/// The bounds and properties that were checked.
struct Checked {
  const Certificate& certificate;
  std::optional<Bytes> limit;

  [[nodiscard]] bool is_above(const MemoryWitness& bound) const { return limit && bound.bytes > *limit; }
  [[nodiscard]] bool fits() const {
    return std::ranges::none_of(certificate.memory, [&](const auto& bound) { return is_above(bound); });
  }
};

void print_json(const Checked& checked, const Output& output) {
  const Certificate& certificate = checked.certificate;
  Json object = {{"valid", true},
                 {"transport", transport_name(certificate)},
                 {"program_hash", certificate.program_hash},
                 {"properties", certificate.properties}};
  for (const MemoryWitness& bound : certificate.memory)
    object["worst_case_memory"].push_back({{"rank", bound.rank.value()}, {"bytes", bound.bytes}});
  if (checked.limit) {
    object["memory_limit_bytes"] = *checked.limit;
    object["fits"] = checked.fits();
  }
  output.print(object);
}

void print_text(const Checked& checked) {
  const Certificate& certificate = checked.certificate;
  std::cout << transport_line(certificate.capabilities)
            << "\nThe certificate holds: " << joined(certificate.properties) << " of program "
            << certificate.program_hash << ", checked without a solver.\n";
  if (certificate.memory.empty()) return;
  std::cout << "\nMemory over all timings";
  if (checked.limit) std::cout << ", limit " << size_text(*checked.limit);
  std::cout << ":\n";
  for (const MemoryWitness& bound : certificate.memory) {
    std::cout << "  rank " << bound.rank << ": at most " << size_text(bound.bytes)
              << (checked.is_above(bound) ? ", above the limit\n" : "\n");
  }
}

/// The subject of a certificate: a Program with its costs, those of `subject`.
struct Certified {
  Subject subject;
  Program program;
};

/// The Program that the release of --for makes of the file.
Expected<Certified> run_by(const Target& target, const CheckCertificateOptions& options) {
  if (!options.transport.empty()) {
    return make_error(ErrorCode::bad_argument, "--for is about the transport of PyTorch",
                      {.found = "--transport " + options.transport, .expected = "one of the two"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto asked, policy_of(options.policy));
  PPSIM_ASSIGN_OR_RETURN(const auto policy, communicators_for(target, asked));
  InputOptions input;
  input.input = options.program;
  input.loaded_by = target;
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, dialect_for(target, input));
  input.dialect = dialect;
  PPSIM_ASSIGN_OR_RETURN(auto subject, read_subject(input, options.costs, policy));
  PPSIM_ASSIGN_OR_RETURN(auto program, program_for(target, subject, policy));
  return Certified{std::move(subject), std::move(program)};
}

Expected<Certified> certified(const CheckCertificateOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.target));
  if (target) return run_by(*target, options);
  PPSIM_ASSIGN_OR_RETURN(const auto policy, policy_of(options.policy));
  InputOptions input;
  input.input = options.program;
  PPSIM_ASSIGN_OR_RETURN(auto subject,
                         read_subject(input, options.costs, policy.value_or(CommunicatorPolicy::per_edge)));
  if (!std::holds_alternative<Program>(subject.ir)) {
    return make_error(
        ErrorCode::bad_argument, "a certificate is about a Program; this file holds a schedule",
        {.file = options.program, .expected = "a Program, or --for with the release that the proof is for"});
  }
  PPSIM_ASSIGN_OR_RETURN(auto program, program_of(subject, policy));
  return Certified{std::move(subject), std::move(program)};
}

Expected<int> run(const CheckCertificateOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto about, certified(options));
  const Subject& subject = about.subject;
  const Program& program = about.program;
  PPSIM_ASSIGN_OR_RETURN(const auto certificate, read_certificate(options.certificate));
  const bool has_sizes = subject.costs && subject.costs->has_sizes;
  if (!certificate.memory.empty() && !has_sizes) {
    return make_error(
        ErrorCode::bad_argument,
        "the certificate bounds memory: give the costs it was made with (--unit, --costs or --model)");
  }
  PPSIM_ASSIGN_OR_RETURN(const auto limit, limit_of(certificate, options));
  const SizeTable* const sizes = has_sizes ? &subject.costs->tables.sizes : nullptr;
  const auto holds = check_certificate(certificate, program, sizes);
  if (!holds) {
    Error error = holds.error();
    error.place.file = options.certificate;
    return tl::unexpected(error);
  }
  PPSIM_RETURN_IF_ERROR(check_transport(certificate, program, sizes, options));
  const Checked checked{certificate, limit};
  if (output.json) {
    print_json(checked, output);
  } else {
    print_text(checked);
  }
  return checked.fits() ? kDone : kDoesNotFit;
}

}  // namespace

void add_check_certificate(Command& program) {
  auto options = std::make_shared<CheckCertificateOptions>();
  Command command = program.add_subcommand("check-certificate", "re-validate a certificate without a solver");
  command.add_option("FILE", options->program, "the program").required();
  command.add_option("CERTIFICATE", options->certificate, "what verify --certificate wrote").required();
  command.add_option("--transport", options->transport, "ask whether it holds on this one, too");
  add_target_option(command, options->target);
  command.add_option("--communicators", options->policy,
                     "of a CSV, as verify had them: per-rank, per-pair, per-edge or per-stage-edge");
  command.add_option("--memory-limit", options->memory_limit,
                     "of one rank, e.g. 80GB: ask whether the certified bounds keep to it");
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli

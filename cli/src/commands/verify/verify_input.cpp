#include <algorithm>
#include <sstream>

#include "command.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/verifier/verify.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

Expected<std::vector<Property>> properties_of(const std::string& names) {
  std::vector<Property> result;
  std::istringstream items(names);
  for (std::string item; std::getline(items, item, ',');) {
    const auto property = property_from_name(item);
    if (!property)
      return tl::unexpected(unknown_name("unknown property", item, names_in(property_registry()), ""));
    result.push_back(*property);
  }
  return result;
}

/// A certificate is of a Program that runs, a repair of one that does not: they rest on these.
Expected<void> check_grounds(const VerifyRequest& options, const std::vector<Property>& asked) {
  const bool certificate = !options.certificate.empty();
  if ((!certificate && options.repair.empty()) || asked.empty()) return {};
  for (const Property property : {Property::well_formed, Property::matched, Property::deadlock_free}) {
    if (std::ranges::find(asked, property) != asked.end()) continue;
    return make_error(
        ErrorCode::bad_argument,
        std::string(certificate ? "a certificate" : "a repair") + " rests on more than these --properties",
        {.found = options.properties, .expected = "well_formed,matched,deadlock_free too"});
  }
  return {};
}

/// The sizes and the limit, which asks for the property beside those that are named.
Expected<void> add_memory(const VerifyRequest& request, const Subject& subject, VerifyOptions& options) {
  const std::vector<Property>& asked = options.properties;
  bool asks_memory = std::ranges::find(asked, Property::memory) != asked.end();
  if (subject.costs && subject.costs->has_sizes) {
    options.sizes = subject.costs->tables.sizes;
    if (asked.empty() || asks_memory) options.memory_limit = subject.costs->memory_limit;
  }
  if (!request.memory_limit.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto limit, parse_size(request.memory_limit));
    // Bytes that only count, as with A=1, need no unit.
    constexpr Bytes kMinOfGpu = 1'000'000;
    const bool of_model = subject.costs && subject.costs->notes;
    if (of_model && limit < kMinOfGpu && !request.memory_limit.ends_with('B')) {
      return make_error(ErrorCode::bad_argument, "--memory-limit has no unit, and so few bytes hold no model",
                        {.found = request.memory_limit,
                         .expected = request.memory_limit + "GB, or another size with its unit"});
    }
    options.memory_limit = limit;
    asks_memory = true;
  }
  if (!asks_memory || options.sizes) return {};
  return make_error(ErrorCode::bad_argument, "memory needs sizes",
                    {.found = "", .expected = "--unit with A, such as F=1,B=2,A=1e9, or --costs or --model"});
}

}  // namespace

Expected<VerifyOptions> verify_options(const VerifyRequest& options, const Subject& subject) {
  VerifyOptions result;
  PPSIM_ASSIGN_OR_RETURN(result.properties, properties_of(options.properties));
  PPSIM_RETURN_IF_ERROR(check_grounds(options, result.properties));
  PPSIM_ASSIGN_OR_RETURN(result.capabilities, capabilities_of(options.transport, options.costs.parallelism));
  result.timeout_s = options.remaining_s();
  result.memory_budget = options.budget;
  result.state_limit = options.state_limit;
  result.cross_check = options.cross_check;
  result.queries = sink_of(options.queries);
  PPSIM_RETURN_IF_ERROR(add_memory(options, subject, result));
  PPSIM_RETURN_IF_ERROR(add_makespan(options, subject, result));
  return result;
}

Expected<VerifyAnswer> verify_input(const VerifyRequest& request,
                                    const std::optional<CommunicatorPolicy>& policy) {
  const auto subject =
      read_subject(request.input, request.costs, policy.value_or(CommunicatorPolicy::per_edge));
  PPSIM_RETURN_IF_ERROR(subject);
  const std::optional<Target>& target = request.input.loaded_by;
  PPSIM_RETURN_IF_ERROR(target ? communicators_for(*target, policy) : Expected<CommunicatorPolicy>());
  PPSIM_ASSIGN_OR_RETURN(auto asked, verify_options(request, *subject));
  PPSIM_ASSIGN_OR_RETURN(auto program,
                         target ? program_for(*target, *subject, *policy) : program_of(*subject, policy));
  AnalyzedProgram analyzed(std::move(program), asked.capabilities);
  if (request.decided) {
    asked.decided = [&](const PropertyResult& result) {
      request.decided->add(analyzed.program(), result);
      tell_decided(request);
    };
  }
  VerifyReport report = verify(analyzed, asked);
  asked.decided = {};
  VerifyAnswer answer{std::move(analyzed), std::move(asked), std::move(report), {}, policy.has_value()};
  answer.target = target;
  if (target || !subject->native_program)
    answer.communicators = policy.value_or(CommunicatorPolicy::per_edge);
  return answer;
}

}  // namespace ppsim::cli

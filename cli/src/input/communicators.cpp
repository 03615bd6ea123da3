#include "communicators.hpp"

namespace ppsim::cli {

Expected<std::optional<CommunicatorPolicy>> policy_of(const std::string& name) {
  if (name.empty()) return std::optional<CommunicatorPolicy>();
  return of_option(policy_from_name(name), "communicators", "--communicators");
}

Expected<Program> program_of(const Subject& subject, const std::optional<CommunicatorPolicy>& policy) {
  if (const auto* program = std::get_if<Program>(&subject.ir)) {
    if (policy && subject.native_program) {
      return make_error(ErrorCode::bad_argument, "a Program has its communicators",
                        {.found = "--communicators",
                         .expected = "a schedule, a CSV, or what ppsim lower --communicators writes"});
    }
    return *program;
  }
  LoweringOptions lowering = default_lowering(subject);
  lowering.communicators = policy.value_or(lowering.communicators);
  return lowered_program(subject, lowering);
}

Expected<Program> program_for(const Target& target, const Subject& subject, CommunicatorPolicy policy) {
  const auto* program = std::get_if<Program>(&subject.ir);
  if (program == nullptr) {
    LoweringOptions lowering = own_lowering(target, policy, subject.ir);
    lowering.send_done_delay = subject.send_done_delay.value_or(lowering.send_done_delay);
    return lowered_program(subject, lowering);
  }
  PPSIM_RETURN_IF_ERROR(check_communicators(target, *program, policy));
  return *program;
}

Expected<std::string> dialect_for(const Target& target, const InputOptions& input) {
  const bool reads_old = target.dialect == CsvDialect::legacy;
  if (input.dialect == "torch") return std::string(reads_old ? "legacy" : "torch");
  const bool is_old = input.dialect == "legacy" || input.dialect == "zero-bubble";
  if (is_old == reads_old) return input.dialect;
  const std::string name(target.name);
  return make_error(ErrorCode::bad_argument, name + " reads another alphabet",
                    {.found = "--dialect " + input.dialect,
                     .expected = "no --dialect; ppsim convert --for " + name + " writes its alphabet"});
}

void note_assumed_communicators(const Subject& subject, const Output& output) {
  if (subject.native_program || !std::holds_alternative<Program>(subject.ir)) return;
  output.note("ppsim: " + subject.name +
              ": a CSV has no communicators: with communicators per-edge, the default (verify and simulate "
              "have --communicators)");
}

}  // namespace ppsim::cli

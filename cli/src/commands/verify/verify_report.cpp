#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>

#include "command_line/shell_words.hpp"
#include "output/counterexample_json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/planner/files.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {

Json result_json(const Program& program, const PropertyResult& result) {
  Json item = {
      {"verdict", verdict_name(result.verdict)}, {"method", result.method}, {"seconds", result.seconds}};
  if (const auto* refuted = std::get_if<Refuted>(&result.verdict))
    item["counterexample"] = counterexample_json(program, refuted->counterexample);
  if (const auto* unknown = std::get_if<Unknown>(&result.verdict)) item["reason"] = unknown->reason;
  if (!result.notes.empty()) item["notes"] = result.notes;
  return item;
}

std::string result_text(const Program& program, const PropertyResult& result) {
  constexpr std::size_t kMaxLines = 40;
  std::ostringstream text;
  const std::string_view name = property_name(result.property);
  for (const std::string& note : result.notes) text << name << ": " << note << '\n';
  if (const auto* unknown = std::get_if<Unknown>(&result.verdict))
    text << name << ": " << unknown->reason << '\n';
  const auto* refuted = std::get_if<Refuted>(&result.verdict);
  if (refuted == nullptr) return text.str();
  text << '\n' << name << " is refuted:\n";
  const std::vector<std::string> lines = explain(program, refuted->counterexample);
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) text << "  " << lines[i] << '\n';
  if (lines.size() > kMaxLines)
    text << "  and " << lines.size() - kMaxLines << " more lines (--json has all)\n";
  return text.str();
}

namespace {

/// Why there is no plan of addresses; empty: there is one, or none was asked for.
std::string why_no_pools(const VerifyAnswer& answer) {
  if (!answer.devices || answer.devices->pool_bytes) return "";
  if (answer.devices->stopped) return kTimeLimit;
  return "making the plan of addresses takes long: very many pairs of tensors may be alive at once";
}

Json memory_json(const VerifyAnswer& answer, const WorstCase& worst) {
  Json item = {{"rank", worst.rank.value()}, {"bytes", worst.bytes}};
  if (!answer.communicator_bytes.empty()) item["communicator_bytes"] = answer.communicator_bytes[worst.rank];
  if (!answer.devices) return item;
  if (answer.devices->pool_bytes) item["pool_bytes"] = (*answer.devices->pool_bytes)[worst.rank];
  if (answer.asked.capabilities.credits)
    item["transport_bytes"] = answer.devices->transport_bytes[worst.rank];
  return item;
}

std::string memory_text(const VerifyAnswer& answer) {
  std::ostringstream text;
  for (const WorstCase& worst : answer.report.memory) {
    text << "  rank " << worst.rank << ": " << size_text(worst.bytes);
    if (answer.devices && answer.devices->pool_bytes)
      text << ", pool of run " << size_text((*answer.devices->pool_bytes)[worst.rank]);
    if (!answer.communicator_bytes.empty())
      text << ", communicators " << size_text(answer.communicator_bytes[worst.rank]);
    text << '\n';
  }
  if (const std::string why = why_no_pools(answer); !why.empty())
    text << "  pool of run: not computed, " << why << '\n';
  if (!answer.devices || !answer.asked.capabilities.credits) return text.str();
  text << "Transport buffers beside it, of messages that are sent and not received:\n";
  for (const WorstCase& worst : answer.report.memory) {
    text << "  rank " << worst.rank << ": up to " << size_text(answer.devices->transport_bytes[worst.rank])
         << '\n';
  }
  return text.str();
}

}  // namespace

void add_devices(const VerifyRequest& request, VerifyAnswer& answer) {
  constexpr Bytes kPerConflict = 24;  // two lists of pairs, one of which grows
  if (answer.report.memory.size() != as_size(answer.program().pipeline().ranks())) return;
  RankMemoryOptions options;
  if (!request.costs.unit.empty()) options.alignment = 1;
  options.limits.stopped = [&] { return request.is_late(); };
  if (request.budget) {
    std::size_t& most = options.limits.max_conflicts;
    most = std::min(most, as_size(*request.budget / kPerConflict));
  }
  if (request.costs.unit.empty())
    answer.communicator_bytes = communicator_bytes_of(request.transport, answer.program());
  answer.devices = rank_memory(answer.analyzed, *answer.asked.sizes, options);
}

std::optional<Bytes> VerifyAnswer::pool_above_limit() const {
  const std::optional<Bytes>& limit = asked.memory_limit;
  if (!limit || !devices || !devices->pool_bytes || !report.proved(Property::memory)) return std::nullopt;
  Bytes largest = 0;
  for (std::size_t r = 0; r < devices->pool_bytes->size(); ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    const Bytes beside = communicator_bytes.empty() ? 0 : communicator_bytes[rank];
    largest = std::max(largest, (*devices->pool_bytes)[rank] + beside);
  }
  return largest > *limit ? std::optional(largest) : std::nullopt;
}

bool VerifyAnswer::misses_pool_for_time() const {
  return asked.memory_limit && report.proved(Property::memory) && devices && devices->stopped;
}

int VerifyAnswer::exit() const {
  const int of_verdicts = verdict_exit(report);
  if (of_verdicts == kDone && misses_pool_for_time()) return kUnknown;
  const bool comes_first = of_verdicts == kDone || of_verdicts == kUnknown;
  return comes_first && pool_above_limit() ? kDoesNotFit : of_verdicts;
}

Json report_json(const VerifyAnswer& answer) {
  const VerifyOptions& options = answer.asked;
  const VerifyReport& report = answer.report;
  const Program& program = answer.program();
  Json properties;
  for (const PropertyResult& result : report.results)
    properties[std::string(property_name(result.property))] = result_json(program, result);
  Json object = {{"properties", properties},
                 {"preparation_seconds", report.preparation_seconds},
                 {"program_hash", program_hash(program)},
                 {"has_backward", trains(program)},
                 {"transport", transport_name(options.capabilities)},
                 {"capabilities_hash", capabilities_hash(options.capabilities)}};
  if (answer.target) object["target"] = answer.target->name;
  if (answer.communicators) object["communicators"] = policy_name(*answer.communicators);
  if (options.sizes) object["sizes_hash"] = sizes_hash(*options.sizes);
  for (const WorstCase& worst : report.memory)
    object["worst_case_memory"].push_back(memory_json(answer, worst));
  if (const std::string why = why_no_pools(answer); !why.empty()) object["pool_not_computed"] = why;
  if (options.memory_limit) object["memory_limit_bytes"] = *options.memory_limit;
  if (options.memory_limit && answer.devices && answer.devices->pool_bytes)
    object["fits"] = report.proved(Property::memory) && !answer.pool_above_limit();
  if (report.makespan) {
    object["makespan_ns"] = {{"least", report.makespan->least}, {"most", report.makespan->most}};
    if (options.makespan_limit) object["makespan_limit_ns"] = *options.makespan_limit;
    object["free_of_cost"] = free_kinds(options.costs->most, program);
  }
  return object;
}

void print_report(const VerifyAnswer& answer) {
  const VerifyOptions& options = answer.asked;
  const VerifyReport& report = answer.report;
  TextTable rows = {{"property", "verdict", "method"}};
  for (const PropertyResult& r : report.results) rows.push_back(verdict_cells(r));
  if (answer.target) {
    std::cout << "for " << answer.target->name << ", which loads it: " << answer.target->description << '\n';
  }
  std::cout << transport_line(options.capabilities) << '\n' << table_text(rows, Align::left);
  if (answer.communicators) {
    std::cout << "with communicators " << policy_name(*answer.communicators)
              << (answer.policy_was_asked ? "\n" : ", the default (--communicators)\n");
  }
  if (!trains(answer.program())) std::cout << "inference: no rank has a backward\n";
  for (const PropertyResult& result : report.results) std::cout << result_text(answer.program(), result);
  if (report.makespan) {
    std::cout << "\nThe step takes from " << time_text(report.makespan->least) << " to "
              << time_text(report.makespan->most);
    if (options.makespan_limit) std::cout << ", limit " << time_text(*options.makespan_limit);
    std::cout << '\n' << free_kinds_text(free_kinds(options.costs->most, answer.program()));
  }
  if (report.memory.empty()) return;
  std::cout << "\nWorst-case memory over all timings";
  if (options.memory_limit) std::cout << ", limit " << size_text(*options.memory_limit);
  std::cout << ":\n" << memory_text(answer);
}

namespace {

/// The repair that was written, or could be; empty: none.
std::string repair_advice(const VerifyRequest& request, const VerifyReport& report,
                          const std::optional<Remedy>& remedy) {
  if (!may_be_repaired(report, remedy)) return "";
  const bool written = remedy && std::holds_alternative<Repaired>(remedy->repair) && !request.repair.empty();
  if (!written) return " --repair FILE writes what does not hang.";
  const bool native = suffix_of(request.repair) == ".json";
  const std::string read_as = request.input.loaded_by            ? " --for " + request.input.target
                              : native || request.policy.empty() ? ""
                                                                 : " --communicators " + request.policy;
  return " Wrote " + request.repair + "; next: ppsim verify " + shell_word(request.repair) + read_as +
         options_text(request.transport);
}

}  // namespace

std::string verify_advice(const VerifyRequest& request, const VerifyAnswer& answer,
                          const std::optional<Remedy>& remedy) {
  const VerifyReport& report = answer.report;
  const int exit = answer.exit();
  std::set<Property> refuted;
  for (const PropertyResult& result : report.results)
    if (std::holds_alternative<Refuted>(result.verdict)) refuted.insert(result.property);
  const bool rounds = refuted.erase(Property::ascending_accumulation) > 0;
  const bool is_late = refuted.erase(Property::makespan) > 0;
  if (exit == kRefuted && refuted.empty())
    return std::string("It runs") +
           (is_late ? ", but can take longer than the limit: the lines above are what takes the time."
                    : ".") +
           (rounds ? " Gradients are added up in another order, so rounding differs." : "");
  if (exit == kRefuted)
    return "Do not run this: the lines above say what is wrong with it." +
           repair_advice(request, report, remedy);
  if (const auto pool = answer.pool_above_limit(); pool && exit == kDoesNotFit) {
    const char* const beside = answer.communicator_bytes.empty() ? "" : " with the communicators beside it";
    return std::string("It runs, and the proved peak fits, but the static plan of addresses") + beside +
           " does not: " + sizes_apart(*pool, *answer.asked.memory_limit) +
           ". A schedule with fewer live microbatches, recompute or more stages needs less.";
  }
  if (exit == kDoesNotFit)
    return "It runs, but does not fit: a schedule with fewer live microbatches, recompute or more stages "
           "needs less.";
  if (exit == kUnknown) {
    std::vector<std::string> reasons = unknown_reasons(report);
    if (answer.misses_pool_for_time()) reasons.emplace_back(kTimeLimit);
    const std::string raise = what_to_raise(reasons);
    return raise.empty() ? "Not decided, and no limit changes that: the lines above say why."
                         : "Not decided: " + raise + ".";
  }
  if (!report.proved(Property::deadlock_free))
    return "The properties asked for hold in every timing; whether it can hang was not asked.";
  return request.certificate.empty()
             ? "Every property holds in every timing. Next: ppsim run, or --certificate FILE "
               "to keep the proof."
             : "Every property holds in every timing; the proof is in " + request.certificate + ".";
}

}  // namespace ppsim::cli

#include <iostream>

#include "output/counterexample_json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

Json coverage_json(const Coverage& coverage) {
  Json families = Json::array();
  for (const Family& family : coverage.families) {
    const PeriodicProgram& program = family.program;
    families.push_back({{"first", program.microbatches(program.first)},
                        {"period", program.rule.period},
                        {"series", program.series.size()},
                        {"waits", program.waits.size()},
                        {"agrees_at", family.agrees}});
  }
  Json object = {{"periodic", families},
                 {"one_by_one", coverage.alone},
                 {"refused", coverage.refused},
                 {"not_covered", coverage.uncovered},
                 {"compared_to", coverage.compared_to}};
  if (coverage.repeats_from) object["repeats_from"] = *coverage.repeats_from;
  return object;
}

Json result_for_all_json(const ProgramFor& program_for, const AllMicrobatchesResult& result) {
  Json item = {
      {"verdict", verdict_name(result.verdict)}, {"method", result.method}, {"seconds", result.seconds}};
  if (const auto* refuted = std::get_if<Refuted>(&result.verdict)) {
    item["microbatches"] = result.microbatches;
    const auto program = program_for(result.microbatches);
    if (program) {
      item["program_hash"] = program_hash(*program);
      item["counterexample"] = counterexample_json(*program, refuted->counterexample);
    }
  }
  if (const auto* unknown = std::get_if<Unknown>(&result.verdict)) item["reason"] = unknown->reason;
  if (result.holds_up_to > 0) item["holds_up_to"] = result.holds_up_to;
  if (!result.notes.empty()) item["notes"] = result.notes;
  return item;
}

Json report_for_all_json(const ProgramFor& program_for, const VerifyOptions& asked,
                         const AllMicrobatchesReport& report) {
  Json properties;
  for (const AllMicrobatchesResult& result : report.results)
    properties[std::string(property_name(result.property))] = result_for_all_json(program_for, result);
  Json object = {{"properties", properties},
                 {"all_microbatches", coverage_json(report.coverage)},
                 {"transport", transport_name(asked.capabilities)},
                 {"capabilities_hash", capabilities_hash(asked.capabilities)}};
  if (asked.sizes) object["sizes_hash"] = sizes_hash(*asked.sizes);
  for (const MemoryForAll& bound : report.memory) {
    object["worst_case_memory"].push_back({{"rank", bound.rank.value()},
                                           {"bytes", bound.bytes.constant},
                                           {"bytes_per_period", bound.bytes.per_period},
                                           {"period", bound.period},
                                           {"reached_at_microbatches", bound.reached_at}});
  }
  if (asked.memory_limit) object["memory_limit_bytes"] = *asked.memory_limit;
  return object;
}

constexpr std::size_t kMaxLinesForAll = 40;

void print_refuted(const ProgramFor& program_for, const AllMicrobatchesResult& result) {
  const auto* refuted = std::get_if<Refuted>(&result.verdict);
  if (refuted == nullptr) return;
  std::cout << '\n'
            << property_name(result.property) << " is refuted, first at m = " << result.microbatches << ":\n";
  const auto program = program_for(result.microbatches);
  if (!program) return;
  const std::vector<std::string> lines = explain(*program, refuted->counterexample);
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxLinesForAll); ++i)
    std::cout << "  " << lines[i] << '\n';
  if (lines.size() > kMaxLinesForAll)
    std::cout << "  and " << lines.size() - kMaxLinesForAll << " more lines (--json has all)\n";
}

std::string bound_text(const MemoryForAll& bound) {
  if (bound.bytes.per_period == 0) return size_text(bound.bytes.constant);
  std::string periods = bound.period == 1 ? "m" : "floor(m/" + std::to_string(bound.period) + ")";
  return size_text(bound.bytes.constant) + " + " + size_text(bound.bytes.per_period) + " * " + periods;
}

void print_text(const ProgramFor& program_for, const VerifyOptions& asked,
                const AllMicrobatchesReport& report) {
  TextTable rows = {{"property, for all m", "verdict", "method"}};
  for (const AllMicrobatchesResult& r : report.results) rows.push_back(verdict_cells(r));
  std::cout << transport_line(asked.capabilities) << '\n' << table_text(rows, Align::left);
  for (const AllMicrobatchesResult& result : report.results) {
    for (const std::string& note : result.notes)
      std::cout << property_name(result.property) << ": " << note << '\n';
    if (const auto* unknown = std::get_if<Unknown>(&result.verdict))
      std::cout << property_name(result.property) << ": " << unknown->reason << '\n';
    print_refuted(program_for, result);
  }
  std::cout << "\nWhat the schedule was taken to be:\n";
  for (const std::string& line : to_lines(report.coverage)) std::cout << "  " << line << '\n';
  if (report.memory.empty()) return;
  std::cout << "\nWorst-case memory over all timings and all m, and one m that needs it:\n";
  for (const MemoryForAll& bound : report.memory)
    std::cout << "  rank " << bound.rank << ": " << bound_text(bound) << ", m = " << bound.reached_at << '\n';
}

/// `one`: the option that says how many microbatches there are.
std::string advice(int exit, const AllMicrobatchesReport& report, const std::string& one) {
  if (exit == kRefuted)
    return "Do not run this with so many microbatches: the lines above say who waits for whom.";
  if (exit == kDoesNotFit)
    return "It runs, but from that number of microbatches on it may not fit: fewer live microbatches, "
           "recompute or "
           "more stages need less.";
  if (exit == kUnknown) {
    const std::string raise = what_to_raise(unknown_reasons(report));
    return "Not decided for all numbers" +
           (raise.empty() ? ", and no limit changes that: " : ": " + raise + ", or ") +
           "verify the one you need with " + one + ".";
  }
  return "Every property holds for every number of microbatches. Those that were not compared are like the "
         "others by how the schedule is made.";
}

}  // namespace

Expected<int> verify_for_all(const VerifyRequest& request, const AllPrograms& programs,
                             const VerifyOptions& asked, const Output& output) {
  const ProgramFor& program_for = programs.program_for;
  AllMicrobatchesOptions options = asked_of_all(asked);
  options.sample_limit = request.sample_limit;
  const auto answered = within_limits(request, output, [&] {
    options.repetitions = programs.repetitions();
    return verify_all_microbatches(program_for, options);
  });
  if (!answered) return answered.error();
  const auto& answers = *answered;
  if (!answers) return tl::unexpected(answers.error());
  const int exit = verdict_exit(*answers);
  if (output.json) {
    output.print(report_for_all_json(program_for, asked, *answers));
  } else {
    print_text(program_for, asked, *answers);
    std::cout << '\n' << advice(exit, *answers, request.one_number()) << '\n';
  }
  return exit;
}

namespace {

Json ranking_json(const RankingForAll& ranking) {
  const auto line = [](const RankLine& l) {
    return Json{{"constant", l.constant}, {"per_rank", l.per_rank}, {"per_ranks", l.per_ranks}};
  };
  Json roles = Json::array();
  for (const Role& role : ranking.roles)
    roles.push_back({{"name", role.name}, {"offset", line(role.offset)}, {"phase", role.phase}});
  Json waits = Json::array();
  for (const RoleWait& wait : ranking.waits) {
    waits.push_back({{"before", wait.before},
                     {"after", wait.after},
                     {"other_rank", line(wait.other)},
                     {"shift", line(wait.shift)},
                     {"shift_per_microbatch", wait.growth},
                     {"first_rank", line(wait.first)},
                     {"last_rank", line(wait.last)}});
  }
  return {{"ranks_from", ranking.least},
          {"agrees_at_ranks", ranking.agrees},
          {"scale", ranking.scale},
          {"roles", roles},
          {"waits", waits}};
}

Json all_ranks_json(const ProgramForRanks& program_for, const AllRanksReport& report) {
  Json item = {{"verdict", verdict_name(report.verdict)}, {"method", "ranking"}, {"seconds", report.seconds}};
  if (const auto* unknown = std::get_if<Unknown>(&report.verdict)) item["reason"] = unknown->reason;
  if (const auto* refuted = std::get_if<Refuted>(&report.verdict)) {
    item["ranks"] = report.ranks;
    item["microbatches"] = report.microbatches;
    if (const auto program = program_for(report.ranks, report.microbatches))
      item["counterexample"] = counterexample_json(*program, refuted->counterexample);
  }
  Json object;
  object["properties"][std::string(property_name(report.property))] = item;
  object["one_by_one_ranks"] = report.alone;
  if (std::holds_alternative<Proved>(report.verdict)) object["all_ranks"] = ranking_json(report.ranking);
  return object;
}

void print_all_ranks(const ProgramForRanks& program_for, const AllRanksReport& report,
                     const TransportCapabilities& transport) {
  std::cout << property_name(report.property) << " for all p and all m: " << verdict_name(report.verdict)
            << '\n';
  if (const auto* unknown = std::get_if<Unknown>(&report.verdict)) {
    const std::string raise = what_to_raise({unknown->reason});
    std::cout << unknown->reason
              << "\n\nNot decided for all ranks: " << (raise.empty() ? "" : raise + ", or ")
              << "verify the number you need with --ranks P"
              << (transport.launches == LaunchChain() ? "" : ", or ask with --transport in-process") << ".\n";
  }
  if (const auto* refuted = std::get_if<Refuted>(&report.verdict)) {
    std::cout << "first at p = " << report.ranks << ", m = " << report.microbatches << ":\n";
    if (const auto program = program_for(report.ranks, report.microbatches)) {
      for (const std::string& line : explain(*program, refuted->counterexample))
        std::cout << "  " << line << '\n';
    }
  }
  if (!std::holds_alternative<Proved>(report.verdict)) return;
  std::cout << "\nEvery wait is for something with a smaller number, for p >= " << report.ranking.least
            << ":\n";
  for (const std::string& line : to_lines(report.ranking)) std::cout << "  " << line << '\n';
  std::cout << "\n"
            << report.ranking.waits.size()
            << " kinds of waits, as found at p = " << report.ranking.agrees.front() << ".."
            << report.ranking.agrees.back() << "; fewer ranks one by one.\n";
}

}  // namespace

Expected<int> verify_for_all_ranks(const VerifyRequest& request, const AllRanksPrograms& programs,
                                   const Output& output) {
  const ProgramForRanks& program_for = programs.program_for;
  // Where nothing is asked for: under ordered launches a proof for all ranks is found of few schedules.
  TransportChoice choice = request.transport;
  if (choice.name.empty()) choice.name = "in-process";
  PPSIM_ASSIGN_OR_RETURN(const auto transport, capabilities_of(choice, request.costs.parallelism));
  const auto answered = within_limits(request, output, [&] {
    return verify_all_ranks(program_for, request.solver_options(), transport, programs.repetitions_for);
  });
  if (!answered) return answered.error();
  const auto& answer = *answered;
  if (!answer) return tl::unexpected(answer.error());
  if (output.json) {
    Json object = all_ranks_json(program_for, *answer);
    object["transport"] = transport_name(transport);
    output.print(object);
  } else {
    std::cout << transport_line(transport) << '\n';
    print_all_ranks(program_for, *answer, transport);
  }
  if (std::holds_alternative<Refuted>(answer->verdict)) return kRefuted;
  return std::holds_alternative<Unknown>(answer->verdict) ? kUnknown : kDone;
}

}  // namespace ppsim::cli

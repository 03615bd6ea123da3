#include <algorithm>
#include <cmath>
#include <iostream>

#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/costs/cost_intervals.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/intervals/never_slower.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// A longest step over all timings has no word for computation that transfers slow down.
Expected<void> check_independent(const VerifyRequest& request, const Tables& tables) {
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(request.transport, request.costs.parallelism));
  const ContendedCosts contended{tables.costs, tables.beside_transfers};
  if (!contended.differ_on(capabilities)) return {};
  return make_error(ErrorCode::bad_argument,
                    "nothing is proved of the time of a step whose transfers slow computation down",
                    {.file = request.costs.costs,
                     .found = "ns_beside_transfers with --transport " + request.transport.name,
                     .expected = "a table without, or a transport that moves data without kernels"});
}

/// All costs that the command line allows; `stages` of them have their own with --per-stage.
Expected<CostSpace> space_of(const VerifyRequest& request, const Subject& subject, int stages) {
  if (!request.for_all.empty()) {
    return parse_cost_intervals(request.for_all).map([&](const CostIntervals& intervals) {
      return request.per_stage ? stage_costs(intervals, stages) : shared_costs(intervals);
    });
  }
  if (!subject.costs || request.per_stage) {
    return make_error(
        ErrorCode::bad_argument, "a question about the time of a step needs costs",
        {.found = request.per_stage ? "--per-stage" : "",
         .expected = request.per_stage ? "--for-all" : "--for-all, --unit, --costs or --model"});
  }
  PPSIM_RETURN_IF_ERROR(check_independent(request, subject.costs->tables));
  PPSIM_ASSIGN_OR_RETURN(const auto spread, parse_spread(request.spread.empty() ? "0%" : request.spread));
  return spread_costs(subject.costs->tables.costs, spread);
}

/// Stages that a microbatch visits.
std::size_t route_length(const Pipeline& pipeline, MicrobatchId mb) {
  return pipeline.spec().routes[pipeline.route_of(mb)].size();
}

/// The same work on the same devices, or one cost would mean two things.
Expected<void> check_same_work(const Pipeline& first, const Pipeline& second) {
  bool same = first.ranks() == second.ranks() && first.microbatches() == second.microbatches() &&
              first.slices() == second.slices();
  for (int m = 0; same && m < first.microbatches(); ++m)
    same = route_length(first, MicrobatchId(m)) == route_length(second, MicrobatchId(m));
  if (same) return {};
  return make_error(ErrorCode::bad_argument,
                    "a comparison needs the same ranks, microbatches, slices, and stages per microbatch",
                    {.found = as_text(second), .expected = as_text(first)});
}

Expected<void> check_other_options(const VerifyRequest& request) {
  if (request.properties.empty() && request.memory_limit.empty() && request.makespan_limit.empty() &&
      request.certificate.empty() && !request.all_microbatches && !request.cross_check)
    return {};
  return make_error(ErrorCode::bad_argument,
                    "--never-slower-than is a question of its own: without --properties, --memory-limit, "
                    "--makespan-limit, --certificate, --all-microbatches and --cross-check",
                    {.found = request.other, .expected = "--for-all or --spread"});
}

/// Two Programs to compare, and the costs of both.
struct CostComparison {
  Program first;
  Program second;
  CostSpace costs;
  NeverSlowerAnswer answer;
};

Expected<CostComparison> compared(const VerifyRequest& request,
                                  const std::optional<CommunicatorPolicy>& policy) {
  const CommunicatorPolicy reading = policy.value_or(CommunicatorPolicy::per_edge);
  InputOptions other = request.input;
  other.input = request.other;
  if (names_file(other.input))
    other.ranks = other.microbatches = other.chunks = other.slices = {}, other.settings.clear();
  PPSIM_ASSIGN_OR_RETURN(const auto first, read_subject(request.input, request.costs, reading));
  PPSIM_ASSIGN_OR_RETURN(const auto second, read_subject(other, request.costs, reading));
  PPSIM_ASSIGN_OR_RETURN(auto first_program, program_of(first, policy));
  PPSIM_ASSIGN_OR_RETURN(auto second_program, program_of(second, policy));
  const Pipeline& pipeline = first_program.pipeline();
  PPSIM_RETURN_IF_ERROR(check_same_work(pipeline, second_program.pipeline()));
  const int stages = std::max(pipeline.stages(), second_program.pipeline().stages());
  PPSIM_ASSIGN_OR_RETURN(auto costs, space_of(request, first, stages));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(request.transport, request.costs.parallelism));
  PPSIM_ASSIGN_OR_RETURN(auto answer, never_slower({first_program,
                                                    second_program,
                                                    costs,
                                                    capabilities,
                                                    {request.timeout_s, {}, sink_of(request.queries)}}));
  return CostComparison{std::move(first_program), std::move(second_program), std::move(costs),
                        std::move(answer)};
}

Json at_json(const CostSpace& costs, const ComparedAt& at) {
  Json values = Json::object();
  for (std::size_t i = 0; i < at.values.size(); ++i) values[costs.variables()[i].name] = at.values[i];
  Json result = {{"costs_ns", values}, {"makespan_ns", at.first}, {"other_makespan_ns", at.second}};
  if (!at.exact.empty()) result["exact"] = at.exact;
  return result;
}

/// A ratio without bound is null.
Json extreme_json(const CostSpace& costs, const Extreme& extreme) {
  return {{"at_least", std::isfinite(extreme.least) ? Json(extreme.least) : Json()},
          {"at_most", std::isfinite(extreme.most) ? Json(extreme.most) : Json()},
          {"at", at_json(costs, extreme.at)}};
}

Json comparison_json(const VerifyRequest& request, const CostComparison& comparison) {
  const NeverSlowerAnswer& answer = comparison.answer;
  Json item = {
      {"than", request.other}, {"verdict", "proved"}, {"method", answer.method}, {"seconds", answer.seconds}};
  if (const auto* slower = std::get_if<Slower>(&answer.verdict)) {
    item["verdict"] = "refuted";
    item["counterexample"] = at_json(comparison.costs, slower->at);
  } else if (const auto* unknown = std::get_if<Unknown>(&answer.verdict)) {
    item["verdict"] = "unknown";
    item["reason"] = unknown->reason;
  }
  if (answer.ratio) item["largest_ratio"] = extreme_json(comparison.costs, *answer.ratio);
  if (answer.difference) item["largest_difference_ns"] = extreme_json(comparison.costs, *answer.difference);
  return {{"never_slower", item},
          {"program_hash", program_hash(comparison.first)},
          {"other_program_hash", program_hash(comparison.second)}};
}

void print_text(const VerifyRequest& request, const CostComparison& comparison) {
  const NeverSlowerAnswer& answer = comparison.answer;
  const std::string& first = request.input.input;
  if (const auto* slower = std::get_if<Slower>(&answer.verdict)) {
    std::cout << "refuted: " << first << " is slower than " << request.other << " (method " << answer.method
              << ")\n  " << to_string(comparison.costs, slower->at) << '\n';
  } else if (const auto* unknown = std::get_if<Unknown>(&answer.verdict)) {
    const std::string raise = what_to_raise({unknown->reason});
    std::cout << "unknown: " << unknown->reason << (raise.empty() ? "" : ": " + raise) << '\n';
  } else {
    std::cout << "proved: " << first << " is never slower than " << request.other << " (method "
              << answer.method << ")\n";
  }
  if (!answer.ratio) return;
  std::cout << "It takes at most " << as_text(answer.ratio->most) << " times as long";
  if (answer.ratio->least < answer.ratio->most)
    std::cout << ", and " << as_text(answer.ratio->least) << " times";
  std::cout << " with\n  " << to_string(comparison.costs, answer.ratio->at) << '\n';
}

}  // namespace

Expected<void> add_usual_costs(VerifyRequest& request) {
  if (!request.for_all.empty() && !request.spread.empty()) {
    return make_error(ErrorCode::bad_argument, "give one of --for-all and --spread",
                      {.found = request.spread, .expected = request.for_all});
  }
  if (request.per_stage && request.other.empty()) {
    return make_error(ErrorCode::bad_argument,
                      "--per-stage is for --never-slower-than: the step is longest where all costs are",
                      {.found = "--per-stage", .expected = "--never-slower-than"});
  }
  if (request.for_all.empty()) return {};
  return parse_cost_intervals(request.for_all).map([&](const CostIntervals& intervals) {
    request.costs.instead = middle_costs(intervals);
  });
}

Expected<void> add_makespan(const VerifyRequest& request, const Subject& subject, VerifyOptions& options) {
  const std::vector<Property>& asked = options.properties;
  if (!request.makespan_limit.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto limit, parse_duration(request.makespan_limit));
    options.makespan_limit = limit;
  }
  if (!options.makespan_limit && std::ranges::find(asked, Property::makespan) == asked.end()) {
    if (request.for_all.empty() && request.spread.empty()) return {};
    return make_error(ErrorCode::bad_argument, "intervals of costs are for the time of a step",
                      {.found = request.for_all + request.spread,
                       .expected = "--makespan-limit, --properties makespan or --never-slower-than too"});
  }
  return space_of(request, subject, 0).map([&](const CostSpace& costs) { options.costs = costs.bounds(); });
}

Expected<int> verify_never_slower(const VerifyRequest& request,
                                  const std::optional<CommunicatorPolicy>& policy, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_other_options(request));
  PPSIM_ASSIGN_OR_RETURN(const auto comparison, compared(request, policy));
  if (output.json) {
    output.print(comparison_json(request, comparison));
  } else {
    print_text(request, comparison);
  }
  if (std::holds_alternative<Slower>(comparison.answer.verdict)) return kRefuted;
  return std::holds_alternative<Unknown>(comparison.answer.verdict) ? kUnknown : kDone;
}

}  // namespace ppsim::cli

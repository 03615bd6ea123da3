#include "ppsim/planner/plan.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "command_line/shell_words.hpp"
#include "options/plan_options.hpp"
#include "options/transport_choice.hpp"
#include "plan_page.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/workload/validated.hpp"
#include "processes/interruption.hpp"

namespace ppsim::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The progress of the search, and the best so far for an interrupt.
class PlanWatch {
 public:
  PlanWatch(const PlanOptions& options, const Output& output)
      : options_(options), shows_(!output.json && !output.silent && ::isatty(STDERR_FILENO) == 1) {
    tell_when_interrupted({.note = "no plan was found to fit yet"});
  }
  ~PlanWatch() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
  }
  PlanWatch(const PlanWatch&) = delete;
  PlanWatch& operator=(const PlanWatch&) = delete;

  void operator()(const PlanProgress& progress) {
    if (progress.best != nullptr && progress.best->step != best_) keep(progress);
    const auto now = Clock::now();
    if (!shows_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    shown_ = true;
    std::cerr << "\r\033[K" << progress.bounded << " plans bounded, " << progress.simulated
              << " simulated; none is below " << time_text(progress.proved);
    if (best_ > 0) std::cerr << ", best " << time_text(best_) << time_left(progress.proved, now);
    std::cerr << std::flush;
  }

 private:
  void keep(const PlanProgress& progress) {
    best_ = progress.best->step;
    const std::string line = time_text(best_) + "  " + as_text(progress.best->choice) + "\n" +
                             plan_command(options_, progress.best->choice) + "\n";
    KnownSoFar known;
    known.note = "the best plan so far, of which no bound says how far it is from the best";
    known.data = line;
    known.members = {
        {"best_so_far", {{"step_ns", best_}, {"command", plan_command(options_, progress.best->choice)}}}};
    tell_when_interrupted(known);
    since_ = Clock::now();
    from_ = progress.proved;
  }

  /// By how fast the bound has risen since the best was found.
  [[nodiscard]] std::string time_left(Nanoseconds proved, Clock::time_point now) const {
    const double seconds = std::chrono::duration<double>(now - since_).count();
    if (proved <= from_ || proved >= best_ || seconds < 1) return "";
    const double left = seconds * static_cast<double>(best_ - proved) / static_cast<double>(proved - from_);
    return ", about " + std::to_string(static_cast<long long>(left) + 1) + " s left to the best";
  }

  const PlanOptions& options_;
  bool shows_ = false;
  bool shown_ = false;
  Nanoseconds best_ = 0;
  Nanoseconds from_ = 0;
  Clock::time_point since_ = Clock::now();
  Clock::time_point last_ = Clock::now();
};

Json row_json(const PlanOptions& options, const PlanRow& row) {
  return {{"plan", as_text(row.choice)},
          {"step_ns", row.step},
          {"layers_ns", row.parts.layers},
          {"bubble_ns", row.parts.bubble},
          {"communication_ns", row.parts.communication},
          {"step_end_ns", row.parts.step_end},
          {"peak_bytes", row.peak_bytes},
          {"memory_limit_bytes", row.memory_limit},
          {"tokens_per_second", row.tokens_per_second},
          {"model_flops_utilization", row.model_flops_utilization},
          {"layout", layout_text(row.layout)},
          {"command", plan_command(options, row.choice)}};
}

struct Answer {
  PlanRequest request;
  Plan plan;
  std::vector<PlanRival> rivals;
  std::optional<VerifyReport> proof;  ///< of the best
  CostNotes notes;
};

Expected<Answer> answer_of(const PlanOptions& options, const Output& output) {
  Answer answer;
  PPSIM_ASSIGN_OR_RETURN(auto request, plan_request(options));
  answer.request = request;
  for (const std::string& asked : options.against) {
    PPSIM_ASSIGN_OR_RETURN(const auto choice, parse_plan_choice(request, asked));
    PPSIM_ASSIGN_OR_RETURN(const auto row, planner::plan_row(request, choice));
    answer.rivals.push_back({asked, row});
  }
  {
    PlanWatch watch(options, output);
    request.progress = std::ref(watch);
    PPSIM_ASSIGN_OR_RETURN(auto found, planner::plan(request));
    answer.plan = std::move(found);
  }
  if (!answer.plan.best.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto proof,
                           planner::verify_plan(answer.request, answer.plan.best.front().choice));
    answer.proof = proof;
  }
  const Workload& work = answer.request.work;
  answer.notes = {"", workload::not_modelled(work), workload::known_error(work)};
  if (!work.calibration.empty()) answer.notes.calibration = calibration_hash(work.calibration);
  return answer;
}

std::string table_of(const std::vector<PlanRow>& rows) {
  TextTable table = {
      {"plan", "step", "layers", "bubble", "communication", "step end", "peak memory", "tokens/s", "MFU"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanRow& row = rows[i];
    const std::string number = std::to_string(i + 1);
    table.push_back({number + (number.size() < 2 ? "   " : "  ") + as_text(row.choice), time_text(row.step),
                     time_text(row.parts.layers), time_text(row.parts.bubble),
                     time_text(row.parts.communication), time_text(row.parts.step_end),
                     size_text(row.peak_bytes), std::to_string(static_cast<long long>(row.tokens_per_second)),
                     percent_text(row.model_flops_utilization)});
  }
  return table_text(table);
}

std::string proof_text(const VerifyReport& proof) {
  std::ostringstream text;
  for (const PropertyResult& result : proof.results)
    text << (text.tellp() > 0 ? ", " : "") << property_name(result.property) << ' '
         << verdict_name(result.verdict);
  Bytes most = 0;
  for (const WorstCase& worst : proof.memory) most = std::max(most, worst.bytes);
  if (most > 0) text << " (at most " << size_text(most) << " in any timing)";
  return text.str();
}

std::string compared_text(const PlanRow& best, const PlanRow& other, const std::string& name) {
  std::string text = name + " takes " + time_text(other.step) + ", " +
                     difference_text(other.step, best.step) + ": " + planner::why_slower(best, other) +
                     ".\n  It has " + planner::what_differs(other.choice, best.choice) + ".\n";
  if (other.spare_bytes() < 0)
    text += "  It does not fit: " + sizes_apart(other.peak_bytes, other.memory_limit) + ".\n";
  return text;
}

void print_found(const PlanOptions& options, const Answer& answer) {
  const Plan& plan = answer.plan;
  const PlanRow& best = plan.best.front();
  if (const auto holds = capabilities_of({.name = options.transport}, best.choice.parallelism); holds)
    std::cout << simulated_line(*holds) << '\n';
  std::cout << table_of(plan.best);
  std::cout
      << "Each row is the best of its parallelism and schedule over chunks and layouts. layers, bubble, "
         "communication and\nstep end add up to the step, in the mean over ranks; layers have the "
         "communication within them.\n";
  if (plan.front.size() > 1) {
    std::cout << "\nLess memory for at most " << percent_text(options.front - 1) << " more:\n"
              << table_of(plan.front);
  }
  std::cout << '\n';
  if (plan.best.size() > 1) std::cout << compared_text(best, plan.best[1], "The runner-up");
  for (const PlanRival& rival : answer.rivals) std::cout << compared_text(best, rival.row, rival.asked);
  if (plan.fastest_misfit)
    std::cout << compared_text(best, *plan.fastest_misfit, as_text(plan.fastest_misfit->choice));
  std::cout << "Layout of the best: " << best.layout << '\n';
  if (answer.proof) std::cout << "Verified: " << proof_text(*answer.proof) << ".\n";
  std::cout << "Searched " << plan.counts.parallelisms << " parallelisms and microbatch sizes: bounds of "
            << plan.counts.bounded << " plans, " << plan.counts.simulated
            << " simulated; what was left out is slower, by its bound, or does not fit.\n";
  if (!plan.unused.empty()) std::cout << "No plan can have " << joined(plan.unused) << ".\n";
  if (const std::string domains = answer.request.work.cluster.domains_text(); !domains.empty())
    std::cout << "The job has " << domains << ".\n";
  std::cout << "Not modelled: " << answer.notes.not_modelled
            << ".\nError of the step in measured runs like it: " << answer.notes.known_error << ".\n\n";
  for (std::size_t i = 0; i < plan.best.size(); ++i)
    std::cout << i + 1 << "  " << plan_command(options, plan.best[i].choice) << '\n';
}

Json proof_json(const VerifyReport& proof) {
  Json object = Json::object();
  for (const PropertyResult& result : proof.results)
    object[property_name(result.property)] = verdict_name(result.verdict);
  Bytes most = 0;
  for (const WorstCase& worst : proof.memory) most = std::max(most, worst.bytes);
  object["worst_case_bytes"] = most;
  return object;
}

Json answer_json(const PlanOptions& options, const Answer& answer) {
  const Plan& plan = answer.plan;
  Json object = {{"objective", options.objective},
                 {"plans", Json::array()},
                 {"front", Json::array()},
                 {"against", Json::array()}};
  for (const PlanRow& row : plan.best) {
    Json item = row_json(options, row);
    if (&row != &plan.best.front()) item["why_slower"] = planner::why_slower(plan.best.front(), row);
    object["plans"].push_back(std::move(item));
  }
  for (const PlanRow& row : plan.front) object["front"].push_back(row_json(options, row));
  for (const PlanRival& rival : answer.rivals) {
    Json item = row_json(options, rival.row);
    item["fits"] = rival.row.spare_bytes() >= 0;
    if (!plan.best.empty()) {
      item["why_slower"] = planner::why_slower(plan.best.front(), rival.row);
      item["differs"] = planner::what_differs(rival.row.choice, plan.best.front().choice);
    }
    object["against"].push_back(std::move(item));
  }
  object["fastest_misfit"] = plan.fastest_misfit ? row_json(options, *plan.fastest_misfit) : Json();
  object["tightest_miss"] = plan.tightest ? row_json(options, *plan.tightest) : Json();
  object["verified"] = answer.proof ? proof_json(*answer.proof) : Json();
  object["unused"] = plan.unused;
  object["searched"] = {{"parallelisms", plan.counts.parallelisms},
                        {"bounded", plan.counts.bounded},
                        {"simulated", plan.counts.simulated},
                        {"measured", plan.counts.measured}};
  object["not_modelled"] = answer.notes.not_modelled;
  object["known_error"] = answer.notes.known_error;
  if (!answer.notes.calibration.empty()) object["calibration_hash"] = answer.notes.calibration;
  return object;
}

int print_none(const PlanOptions& options, const Answer& answer, const Output& output) {
  if (!answer.plan.tightest) {
    output.note("ppsim: no schedule accepts any of the parallelisms; fewer values of --fix leave more");
    return kDoesNotFit;
  }
  if (const auto& unused = answer.plan.unused; !unused.empty())
    output.note("ppsim: no plan can have " + joined(unused));
  const Bytes memory = answer.request.work.cluster.gpu.memory_bytes;
  const Bytes spare = answer.request.min_spare_bytes;
  output.note(spare < memory
                  ? "ppsim: no plan fits into " + size_text(memory - spare) + " of a GPU"
                  : "ppsim: no plan leaves " + size_text(spare) + " of a GPU that has " + size_text(memory));
  const PlanRow& row = *answer.plan.tightest;
  output.note(
      "ppsim: the least is " + size_text(row.peak_bytes) + ", of " + as_text(row.choice) +
      "; more nodes or --fix fsdp=on need less" +
      (answer.request.fixed.contains("recompute") ? ", and other values of --fix recompute may" : ""));
  output.note(plan_command(options, row.choice));
  return kDoesNotFit;
}

Expected<int> run(const PlanOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(refuse_plugins("plan searches"));
  if (output.json && !options.format.empty())
    return make_error(ErrorCode::bad_argument, "--emit and --json both print the best plan",
                      {.found = "--emit " + options.format + " --json", .expected = "one of the two"});
  PPSIM_ASSIGN_OR_RETURN(const auto answer, answer_of(options, output));
  const bool found = !answer.plan.best.empty();
  if (found && !options.report.empty()) {
    const std::string page = plan_page(options, answer.plan, answer.rivals, command_words(output.arguments));
    PPSIM_RETURN_IF_ERROR(write_text_file(options.report, page));
  }
  if (output.json) output.print(answer_json(options, answer));
  if (!found) return print_none(options, answer, output);
  if (!options.format.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto settings, emitted(options, answer.request, answer.plan.best));
    std::cout << settings;
  } else if (!output.json) {
    print_found(options, answer);
  }
  return kDone;
}

}  // namespace

void add_plan(Command& program) {
  auto options = std::make_shared<PlanOptions>();
  Command command = program.add_subcommand(
      "plan", "the fastest parallelism and schedule for a model, a batch and a cluster");
  add_plan_options(command, *options);
  command.runs(run, options);
}

}  // namespace ppsim::cli

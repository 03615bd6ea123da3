#include "study.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <optional>
#include <thread>

#include "command_line/validators.hpp"
#include "options/option_uses.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/study.hpp"
#include "processes/interruption.hpp"
#include "processes/several_processes.hpp"
#include "study_watch.hpp"

namespace ppsim::cli {
namespace {

struct StudyOptions {
  std::string action, file, store, shard = "0/1", output = "-", baseline;
  std::vector<std::string> merged;
  int jobs = 0;
  double tolerance = 0.01;
  bool watch = false;

  [[nodiscard]] std::string store_file() const { return store.empty() ? file + ".sqlite" : store; }
};

/// A study, its store and what that has.
struct Opened {
  Study study;
  StudyStore store;
};

Expected<Opened> opened(const StudyOptions& options, bool must_exist) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(options.file));
  PPSIM_ASSIGN_OR_RETURN(auto study, read_study(text, options.file));
  PPSIM_ASSIGN_OR_RETURN(auto store, StudyStore::open(options.store_file(), must_exist));
  return Opened{std::move(study), std::move(store)};
}

/// "1/4" is the second of four.
Expected<void> read_shard(const std::string& text, StudyRun& run) {
  const std::size_t slash = text.find('/');
  const bool read = slash != std::string::npos && read_number(text.substr(0, slash), run.shard) &&
                    read_number(text.substr(slash + 1), run.shards);
  if (read && run.shards >= 1 && run.shard >= 0 && run.shard < run.shards) return {};
  return make_error(ErrorCode::bad_argument, "--shard is no share of a study",
                    {.found = text, .expected = "i/n with i from 0 to n - 1, such as 0/4"});
}

/// The reasons of most points first: a value that is wrong everywhere shows at once.
std::vector<std::pair<std::string, std::size_t>> common_reasons(const StudyCounts& counts) {
  constexpr std::size_t kShown = 5;
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.reasons.begin(), counts.reasons.end());
  std::ranges::stable_sort(reasons, std::greater<>(), &std::pair<std::string, std::size_t>::second);
  reasons.resize(std::min(reasons.size(), kShown));
  return reasons;
}

/// Null: nothing fits.
Json best_json(const StudyCounts& counts) {
  if (!counts.best) return {};
  Json best = {{"step_ns", static_cast<Nanoseconds>(counts.best->step_ns)},
               {"tokens_per_second", counts.best->tokens_per_second}};
  for (const auto& [name, value] : counts.best->point->values) best["point"][name] = value;
  return best;
}

/// `evaluated`: points that this process has done.
int print_status(const StudyOptions& options, const Opened& open, std::optional<std::size_t> evaluated,
                 const Output& output) {
  const auto results = open.store.results();
  if (!results) return report(results.error(), output);
  const StudyCounts counts = counts_of(open.study, *results);
  const std::size_t all = open.study.points.size();
  if (output.json) {
    Json object = {{"store", options.store_file()},
                   {"points", all},
                   {"done", all - counts.missing},
                   {"fits", counts.fits},
                   {"does_not_fit", counts.does_not_fit},
                   {"impossible", counts.impossible},
                   {"missing", counts.missing}};
    if (evaluated) object["evaluated"] = *evaluated;
    object["best"] = best_json(counts);
    object["reasons"] = Json::array();
    for (const auto& [reason, count] : common_reasons(counts))
      object["reasons"].push_back({{"reason", reason}, {"points", count}});
    output.print(object);
  } else {
    std::cout << options.store_file() << ": " << all - counts.missing << " of " << all << " points done; "
              << counts.fits << " fit, " << counts.does_not_fit << " do not, " << counts.impossible
              << " are impossible\n";
    if (counts.best) std::cout << "  best: " << words_of(open.study, *counts.best) << '\n';
    for (const auto& [reason, count] : common_reasons(counts))
      std::cout << "  impossible, " << count << (count == 1 ? " point: " : " points: ") << reason << '\n';
  }
  return kDone;
}

/// A line on a terminal, with the time left.
std::function<void(std::size_t, std::size_t)> progress_line(const StudyOptions& options,
                                                            const Output& output) {
  if (options.watch || output.json || output.silent || ::isatty(STDERR_FILENO) != 1) return {};
  const auto start = std::chrono::steady_clock::now();
  return [start](std::size_t done, std::size_t all) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::cerr << "\r\033[K" << done << " of " << all << " points";
    if (done > 0 && done < all)
      std::cerr << ", "
                << static_cast<long long>(seconds * static_cast<double>(all - done) /
                                          static_cast<double>(done)) +
                       1
                << " s left";
    std::cerr << (done == all ? "\r\033[K" : "") << std::flush;
  };
}

/// Looks at the store while it is written, until it is joined.
Expected<std::jthread> watching(const StudyOptions& options, const Study& study, const Output& output) {
  if (!options.watch || output.silent) return std::jthread();
  PPSIM_ASSIGN_OR_RETURN(auto watch, StudyWatch::open(study, options.store_file()));
  return std::jthread([watch = std::move(watch)](const std::stop_token& stop) mutable {
    static_cast<void>(watch.follow(stop));  // who writes says what is wrong with the store
  });
}

Expected<void> merge_into(StudyStore& store, const StudyOptions& options) {
  for (const std::string& other : options.merged) PPSIM_RETURN_IF_ERROR(store.merge(other));
  tell_when_interrupted({.note = "what is done is in " + options.store_file() + "; ppsim study resume " +
                                 options.file + " goes on"});
  return {};
}

/// On several machines there is no store in common: the first process has it, and all tell each other.
Expected<int> run_in_rounds(const StudyOptions& options, const StudyRun& run, const Output& output,
                            Bootstrap& processes) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(options.file));
  PPSIM_ASSIGN_OR_RETURN(auto study, read_study(text, options.file));
  const StudyGroup group{processes.process(), processes.size(),
                         [&](const std::string& bytes) { return processes.allgather(bytes); }};
  if (group.process > 0)
    return run_study_in_rounds(study, nullptr, run, group).map([](auto) { return kDone; });
  PPSIM_ASSIGN_OR_RETURN(auto store, StudyStore::open(options.store_file(), options.action == "resume"));
  PPSIM_RETURN_IF_ERROR(merge_into(store, options));
  PPSIM_ASSIGN_OR_RETURN(auto watch, watching(options, study, output));
  PPSIM_ASSIGN_OR_RETURN(const auto evaluated, run_study_in_rounds(study, &store, run, group));
  watch = {};
  return print_status(options, {std::move(study), std::move(store)}, evaluated, output);
}

/// Several processes of mpirun or srun on a machine share the points through the store; the first one speaks.
int run_points(const StudyOptions& options, const Output& all) {
  Output output = all;
  output.silent = launched_rank() > 0;
  StudyRun run;
  if (auto good = read_shard(options.shard, run); !good) return report(good.error(), output);
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  run.jobs = options.jobs > 0 ? options.jobs : std::max(1, processors / launched_on_this_machine());
  run.progress = progress_line(options, output);
  if (launched_on_several_machines() && run.shards == 1) {
    return on_launched_processes(all, false, [&](const Output& own, Bootstrap* processes) {
      return run_in_rounds(options, run, own, *processes);
    });
  }
  auto open = opened(options, options.action == "resume");
  if (!open) return report(open.error(), output);
  if (auto good = merge_into(open->store, options); !good) return report(good.error(), output);
  auto watch = watching(options, open->study, output);
  if (!watch) return report(watch.error(), output);
  const auto added = run_study(open->study, open->store, run);
  *watch = {};
  if (!added) return report(added.error(), output);
  if (output.silent) return kDone;
  return print_status(options, *open, *added, output);
}

Expected<int> watch_points(const StudyOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto open, opened(options, true));
  if (options.watch) {
    PPSIM_ASSIGN_OR_RETURN(auto watch, StudyWatch::open(open.study, options.store_file()));
    PPSIM_RETURN_IF_ERROR(watch.follow({}));
  }
  return print_status(options, open, {}, output);
}

Expected<int> export_points(const StudyOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto open, opened(options, true));
  PPSIM_ASSIGN_OR_RETURN(const auto results, open.store.results());
  const bool lines = suffix_of(options.output) == ".jsonl";
  const std::string text =
      lines ? planner::study_jsonl(open.study, results) : planner::study_csv(open.study, results);
  PPSIM_RETURN_IF_ERROR(write_text_file(options.output, text));
  if (output.json && options.output != "-") output.print({{"file", options.output}});
  return kDone;
}

std::string point_words(const StudyPoint& point) {
  std::string text;
  for (const auto& [name, value] : point.values) text += (text.empty() ? "" : ", ") + name + " " + value;
  return text;
}

Expected<int> diff_points(const StudyOptions& options, const Output& output) {
  if (options.baseline.empty())
    return make_error(ErrorCode::bad_argument, "diff needs a --baseline",
                      {.found = "", .expected = "--baseline FILE, the store of an earlier run"});
  PPSIM_ASSIGN_OR_RETURN(const auto open, opened(options, true));
  PPSIM_ASSIGN_OR_RETURN(const auto baseline, StudyStore::open(options.baseline, true));
  PPSIM_ASSIGN_OR_RETURN(const auto results, open.store.results());
  PPSIM_ASSIGN_OR_RETURN(const auto before, baseline.results());
  const auto [worse, compared] = planner::compare_studies(open.study, results, before, options.tolerance);
  if (compared == 0) {
    return make_error(ErrorCode::bad_argument,
                      "nothing to compare: no point is done both here and in the baseline",
                      {.file = options.baseline,
                       .found = std::to_string(before.size()) + " results",
                       .expected = "results of this study"});
  }
  if (output.json) {
    Json items = Json::array();
    for (const auto& one : worse) items.push_back({{"point", point_words(one.point)}, {"what", one.what}});
    output.print({{"baseline", options.baseline},
                  {"tolerance", options.tolerance},
                  {"compared", compared},
                  {"points", open.study.points.size()},
                  {"regressions", items}});
  } else {
    for (const auto& one : worse) std::cout << point_words(one.point) << ": " << one.what << '\n';
    std::cout << worse.size() << " of " << open.study.points.size() << " points are worse than in "
              << options.baseline << " by more than " << percent_text(options.tolerance) << '\n';
    if (compared < open.study.points.size())
      std::cout << compared << " points were compared; the others are unfinished here or in the baseline\n";
  }
  return worse.empty() ? kDone : kRegression;
}

/// Every action uses FILE and --store.
const std::vector<OptionUse>& action_options() {
  static const std::vector<OptionUse> uses = {
      {"--jobs", {"run", "resume"}},  {"--watch", {"run", "resume", "status"}},
      {"--shard", {"run", "resume"}}, {"--merge", {"run", "resume"}},
      {"--output", {"export"}},       {"--baseline", {"diff"}},
      {"--tolerance", {"diff"}}};
  return uses;
}

Expected<int> run(const StudyOptions& options, const Command& command, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_uses(command, action_options(), options.action));
  PPSIM_RETURN_IF_ERROR(refuse_plugins("study evaluates"));
  if (options.action == "run" || options.action == "resume") return run_points(options, output);
  if (options.action == "export") return export_points(options, output);
  if (options.action == "diff") return diff_points(options, output);
  return watch_points(options, output);
}

}  // namespace

void add_study(Command& program) {
  auto options = std::make_shared<StudyOptions>();
  Command command =
      program.add_subcommand("study", "many configurations of one question, in a store that resumes");
  command
      .add_option(
          "ACTION", options->action,
          "run the points that the store lacks; resume, of a store that is there; status; export as a "
          "table; diff, with an earlier store")
      .required()
      .check(one_of({"run", "resume", "status", "export", "diff"}));
  command.add_option("FILE", options->file, "the study (JSON)").required();
  command.add_option("--store", options->store, "results (SQLite); default: FILE.sqlite");
  command
      .add_option("--jobs", options->jobs, "run, resume: threads; default: as many as there are processors")
      .check(count());
  command.add_flag("--watch", options->watch,
                   "run, resume, status: how far it is and the best so far, on stderr, as points come in");
  command.add_option("--shard", options->shard, "run, resume: i/n, every n-th point from the i-th on, from 0")
      .show_default();
  command.add_option("--merge", options->merged, "run, resume: another store, whose results are added first")
      .one_value_each();
  command.add_option("-o,--output", options->output, "export: FILE.csv, FILE.jsonl or -")
      .show_default()
      .check(output_file({".csv", ".jsonl"}));
  command.add_option("--baseline", options->baseline, "diff: the earlier store");
  command.add_option("--tolerance", options->tolerance, "diff: share by which step and peak may grow")
      .show_default()
      .check(not_negative());
  command.runs([options, command](const Output& output) { return run(*options, command, output); });
}

}  // namespace ppsim::cli

// Contention of all GPUs of a job: every copy of the pipeline on the cluster's NVLink and NICs.

#include <algorithm>
#include <iostream>
#include <map>

#include "contention.hpp"
#include "input/evaluated.hpp"
#include "ppsim/planner/effects/job_step.hpp"
#include "ppsim/planner/trace_file.hpp"

namespace ppsim::cli {
namespace {

struct ContendedJob {
  ContendedStep step;
  JobStep job;
  Parallelism parallelism;
  std::string rank_order;

  [[nodiscard]] int gpus() const { return parallelism.gpus(); }
  [[nodiscard]] int copies() const { return parallelism.gpus() / parallelism.pipeline; }
};

/// "NVLink out" of "GPU 3 NVLink out", "NIC in" of "node 2 NIC 1 in".
std::string kind_of(const std::string& name) {
  const std::string way = name.ends_with(" out") ? " out" : " in";
  if (name.find("NVLink") != std::string::npos) return "NVLink" + way;
  return name.find("NIC") != std::string::npos ? "NIC" + way : name;
}

/// Of the links of a kind the one that holds flows back for the longest time, or, where none does, the
/// busiest; none that nothing took.
std::vector<LinkRow> rows_of(const CopiedRun& run) {
  std::map<std::string, LinkRow> worst;
  std::map<std::string, int> counts;
  const auto rank = [](const LinkUse& use) { return std::pair(use.contended, use.busy); };
  for (std::size_t i = 0; i < run.links.size(); ++i) {
    const std::string kind = kind_of(run.links[i].name);
    ++counts[kind];
    const auto [known, is_new] = worst.try_emplace(kind, LinkRow{run.links[i].name, run.uses[i]});
    if (!is_new && rank(run.uses[i]) > rank(known->second.use))
      known->second = {run.links[i].name, run.uses[i]};
  }
  std::vector<LinkRow> rows;
  for (auto& [kind, row] : worst) {
    row.alike = counts[kind];
    if (row.use.flows > 0) rows.push_back(row);
  }
  return rows;
}

Expected<ContendedJob> contended_job(const ContentionOptions& options,
                                     const TransportCapabilities& capabilities, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto source, cost_source(options.costs));
  PPSIM_ASSIGN_OR_RETURN(auto planned, evaluated("contention", read_subject(options.input, options.costs),
                                                 capabilities, output));
  Workload workload = std::get<Workload>(*source);
  workload.parallelism.recompute = planned.costs.recompute;
  PPSIM_ASSIGN_OR_RETURN(auto job,
                         job_step(planned, workload,
                                  {.nics = options.nics.value_or(0),
                                   .oversubscription = options.oversubscription.value_or(0),
                                   .rails = options.rails,
                                   .folding = options.every_copy ? Folding::never : Folding::where_equal}));
  ContendedStep step{std::move(planned), job.run.trace, job.run.makespan, rows_of(job.run)};
  const bool apart = workload.parallelism.rank_order == RankOrder::tp_cp_pp_dp;
  return ContendedJob{std::move(step), std::move(job), workload.parallelism,
                      apart ? "tp-cp-pp-dp" : "tp-cp-dp-pp"};
}

std::string copies_text(const ContendedJob& of) {
  const int simulated = of.job.run.simulated_copies;
  if (of.copies() == 1) return "one pipeline";
  if (simulated == 1) return "one of " + std::to_string(of.copies()) + " copies, which do the same";
  return std::to_string(simulated) + " of " + std::to_string(of.copies()) + " copies";
}

std::string advice(const ContendedJob& of) {
  const LinkRow* worst = worst_link(of.step.links);
  if (worst == nullptr) return "Nothing holds anything else back.";
  const std::string held = worst->name + " holds back what passes it for " +
                           share_text(worst->use.contended, of.job.step) + " of the step";
  const Nanoseconds alone = of.step.planned.step();
  if (of.job.step == alone) return held + ", which no rank waits for.";
  constexpr double kWorthALook = 0.01;  // of the step
  if (of.job.step < alone) return held + ", and the step is shorter for it.";
  if (static_cast<double>(of.job.step - alone) < kWorthALook * static_cast<double>(alone))
    return held + ", which costs little.";
  return held + ". Next: the other --rank-order.";
}

void print_text(const ContendedJob& of) {
  const Nanoseconds alone = of.step.planned.step();
  std::cout << simulated_line(of.step.planned.capabilities()) << '\n'
            << of.step.planned.name << ": " << of.step.planned.program().pipeline() << '\n'
            << of.gpus() << " GPUs, " << of.rank_order << ", simulated " << copies_text(of) << '\n'
            << "step " << time_text(of.job.step) << ", " << time_text(alone) << " where everything is alone";
  if (alone > 0) std::cout << " (" << difference_text(of.job.step, alone) << ")";
  std::cout << '\n' << links_text(of.step.links, of.job.step) << advice(of) << '\n';
}

Json contended_job_json(const ContendedJob& of) {
  const CopiedRun& run = of.job.run;
  return {{"schedule", of.step.planned.name},
          {"makespan_ns", run.makespan},
          {"makespan_alone_ns", of.step.planned.metrics.times.makespan},
          {"step_ns", of.job.step},
          {"step_alone_ns", of.step.planned.step()},
          {"gpus", of.gpus()},
          {"rank_order", of.rank_order},
          {"copies", of.copies()},
          {"simulated_copies", run.simulated_copies},
          {"activities", run.activities},
          {"all_activities", run.all_activities},
          {"links", links_json(of.step.links)},
          {"transport", transport_name(of.step.planned.capabilities())}};
}

}  // namespace

Expected<int> run_job(const ContentionOptions& options, const TransportCapabilities& capabilities,
                      const Output& output) {
  const auto job = contended_job(options, capabilities, output);
  if (!job) return report_on(capabilities, job.error(), output);
  if (!options.trace.empty()) {
    PPSIM_RETURN_IF_ERROR(write_trace_file(options.trace, job->step.timed_run()));
  }
  if (output.json) {
    output.print(contended_job_json(*job));
  } else {
    print_text(*job);
  }
  return kDone;
}

}  // namespace ppsim::cli

// verify for every number of microbatches at once.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "counterexample.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/planner/repetitions.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "verification.hpp"

namespace ppsim::python {
namespace {

constexpr int kMaxTriedMicrobatches = 1000;

/// The batch of a model is as large as a number of microbatches asks for.
Sources with_batch(Sources sources, int microbatches) {
  for (Source& source : sources) {
    if (auto* work = std::get_if<Workload>(&source.value)) {
      Parallelism& parallelism = work->parallelism;
      parallelism.global_batch_size = microbatches * parallelism.data * parallelism.microbatch_size;
    }
  }
  return sources;
}

/// The parameters that generate a schedule, found by its name and shape. Errors: throws CoreError.
ScheduleParameters parameters_of(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  ScheduleParameters parameters{
      .ranks = pipeline.ranks(), .microbatches = pipeline.microbatches(), .slices = pipeline.slices()};
  if (find_schedule(schedule.name())) {
    if (generate(schedule.name(), parameters) == schedule) return parameters;
    parameters.chunks = pipeline.stages() / pipeline.ranks();
    if (generate(schedule.name(), parameters) == schedule) return parameters;
  }
  throw CoreError(
      {ErrorCode::bad_argument,
       "how this schedule goes on with more microbatches is not known",
       {.found = "'" + schedule.name() + "'",
        .expected = "what ppsim.generate gives for a published name without settings; the "
                    "program takes settings: ppsim verify NAME --set KEY=VALUE --all-microbatches"}});
}

/// The Programs of one published schedule.
class Subject {
 public:
  Subject(const Schedule& schedule, CommunicatorPolicy communicators, Sources costs)
      : name_(schedule.name()), parameters_(parameters_of(schedule)), costs_(std::move(costs)) {
    lowering_.communicators = communicators;
  }

  [[nodiscard]] Sources costs(int microbatches) const { return with_batch(costs_, microbatches); }

  /// At unit costs where none are given.
  [[nodiscard]] Expected<CostedSchedule> costed(int microbatches) const {
    ScheduleParameters parameters = parameters_;
    parameters.microbatches = microbatches;
    PPSIM_ASSIGN_OR_RETURN(auto schedule, generate(name_, parameters));
    if (costs_.empty()) return CostedSchedule{std::move(schedule), {}};
    CostTable costs = bound_costs(with_batch(costs_, microbatches), schedule.pipeline()).tables.costs;
    return CostedSchedule{std::move(schedule), std::move(costs)};
  }

  [[nodiscard]] Expected<Program> program(int microbatches) const {
    PPSIM_ASSIGN_OR_RETURN(const auto subject, costed(microbatches));
    return lower(subject.schedule, lowering_, costs_.empty() ? nullptr : &subject.costs);
  }

  /// The first that there is. Errors: throws CoreError.
  [[nodiscard]] Program first_program() const {
    for (int m = 1; m < kMaxTriedMicrobatches; ++m) {
      if (auto found = program(m)) return *std::move(found);
    }
    return value_of(program(kMaxTriedMicrobatches));
  }

  [[nodiscard]] Repetitions repetitions() const {
    const ScheduleInfo& info = *value_of(find_schedule(name_));
    if (info.uses_costs && !costs_.empty()) return {};
    const Repetitions known = repetitions_at_unit_costs(info, parameters_, lowering_.communicators);
    if (costs_.empty()) return known;
    return repetitions_under_costs(known, lowering_.communicators, [this](int m) { return costed(m); });
  }

 private:
  std::string name_;
  ScheduleParameters parameters_;
  Sources costs_;
  LoweringOptions lowering_;
};

nb::dict result_data(const Subject& subject, const AllMicrobatchesResult& result) {
  nb::dict item = verdict_data(result.property, result.verdict);
  item["method"] = result.method;
  item["seconds"] = result.seconds;
  item["notes"] = result.notes;
  item["holds_up_to"] = result.holds_up_to;
  if (const auto* refuted = std::get_if<Refuted>(&result.verdict)) {
    const Program program = value_of(subject.program(result.microbatches));
    item["microbatches"] = result.microbatches;
    item["counterexample"] = counterexample_data(program, refuted->counterexample);
    item["lines"] = explain(program, refuted->counterexample);
  }
  return item;
}

nb::dict memory_data(const MemoryForAll& bound) {
  return data({{"rank", bound.rank.value()},
               {"bytes", bound.bytes.constant},
               {"bytes_per_period", bound.bytes.per_period},
               {"period", bound.period},
               {"reached_at", bound.reached_at}});
}

Data verified_for_all(const Schedule& schedule, const std::string& communicators,
                      const VerifyQuestion& question) {
  const Subject subject(schedule, value_of(policy_from_name(communicators)), question.costs);
  const Program first = subject.first_program();
  VerifyQuestion of_first = question;
  of_first.costs = subject.costs(first.pipeline().microbatches());
  const VerifyOptions asked = options_of(first, of_first);
  const AllMicrobatchesReport report = interruptible([&](const Stopped& stopped) {
    const ProgramFor program_for = [&](int m) -> Expected<Program> {
      if (stopped()) return make_error(ErrorCode::refused, "interrupted");
      return subject.program(m);
    };
    AllMicrobatchesOptions of_all = asked_of_all(asked);
    of_all.repetitions = subject.repetitions();
    return value_of(verify_all_microbatches(program_for, of_all));
  });
  nb::list properties, memory;
  for (const AllMicrobatchesResult& result : report.results) properties.append(result_data(subject, result));
  for (const MemoryForAll& bound : report.memory) memory.append(memory_data(bound));
  return data({{"properties", properties},
               {"memory", memory},
               {"transport", transport_text(asked.capabilities)},
               {"memory_limit_bytes", asked.memory_limit},
               {"coverage", to_lines(report.coverage)}});
}

}  // namespace

void bind_all_microbatches(nb::module_& module) {
  module.def("verify_all_microbatches", &verified_for_all, "schedule"_a, "communicators"_a, "question"_a);
}

}  // namespace ppsim::python

#include "ppsim/verifier/parameterized/all_ranks.hpp"

#include <z3++.h>

#include <algorithm>
#include <map>

#include "proofs.hpp"
#include "properties/properties.hpp"
#include "solver/ask_z3.hpp"

namespace ppsim::verifier {
namespace {

constexpr int kFirstRanks = 3;  // of two ranks each is the other's neighbour on both sides
constexpr int kLastRanks = 8;

constexpr const char* kSubject = "a schedule for every number of ranks and of microbatches";

/// The Programs, and the transport that they are for.
struct RanksQuestion {
  const ProgramForRanks& program_for;
  const RepetitionsForRanks& repetitions_for;
  const TransportCapabilities& transport;
};

/// How Z3 is asked.
struct Asking {
  const Deadline& deadline;
  const SolverOptions& whole;  ///< for everything

  [[nodiscard]] SolverOptions options() const {
    return {deadline.remaining_s(), whole.memory_budget, whole.queries};
  }
};

/// Unknown coefficients of every role as integers of Z3.
class Coefficients {
 public:
  Coefficients(z3::context& context, std::size_t roles) : scale(context.int_const("scale")) {
    const auto make = [&](const char* name, std::size_t role) {
      return context.int_const((name + std::to_string(role)).c_str());
    };
    for (std::size_t r = 0; r < roles; ++r) {
      constant.push_back(make("a", r));
      per_rank.push_back(make("b", r));
      per_ranks.push_back(make("c", r));
    }
  }
  z3::expr scale;
  std::vector<z3::expr> constant, per_rank, per_ranks;
};

/// Least phases, by longest paths over the roles. Returns: whether there are any.
bool find_phases(RankingForAll& ranking) {
  for (std::size_t round = 0; round <= ranking.roles.size(); ++round) {
    bool changed = false;
    for (const RoleWait& wait : ranking.waits) {
      Role& after = ranking.roles[as_size(wait.after)];
      const std::int64_t least = ranking.roles[as_size(wait.before)].phase + wait.growth;
      changed = changed || after.phase < least;
      after.phase = std::max(after.phase, least);
    }
    if (!changed) return true;
  }
  return false;
}

std::int64_t slack(const RankingForAll& ranking, const RoleWait& wait) {
  return ranking.roles[as_size(wait.after)].phase - ranking.roles[as_size(wait.before)].phase - wait.growth;
}

/// Rank of `after` less rank of `before` must be positive for p >= least and every rank of the wait. It is a
/// line in r and p, so its values on the first and on the last rank decide, and these are lines in p. Since a
/// phase that is ahead only helps, k = 1 asks for most.
class Constraint {
 public:
  Constraint(const RankingForAll& ranking, const RoleWait& wait, const Coefficients& unknown)
      : ranking_(ranking), wait_(wait), unknown_(unknown) {}

  void add_to(z3::solver& solver) const {
    for (const RankLine& end : {wait_.first, wait_.last}) {
      const z3::expr growth = per_rank() * coefficient(end.per_ranks) + per_ranks();
      const z3::expr at_zero = constant() + per_rank() * coefficient(end.constant);
      solver.add(growth >= 0);
      solver.add(at_zero + growth * coefficient(ranking_.least) >= 1);
    }
  }

 private:
  [[nodiscard]] int coefficient(std::int64_t value) const { return static_cast<int>(value); }
  [[nodiscard]] std::size_t after() const { return as_size(wait_.after); }
  [[nodiscard]] std::size_t before() const { return as_size(wait_.before); }

  [[nodiscard]] z3::expr constant() const {
    return unknown_.constant[after()] - unknown_.constant[before()] -
           unknown_.per_rank[before()] * coefficient(wait_.other.constant) -
           unknown_.scale * coefficient(wait_.shift.constant - 1 - slack(ranking_, wait_));
  }
  [[nodiscard]] z3::expr per_rank() const {
    return unknown_.per_rank[after()] - unknown_.per_rank[before()] -
           unknown_.scale * coefficient(wait_.shift.per_rank);
  }
  [[nodiscard]] z3::expr per_ranks() const {
    return unknown_.per_ranks[after()] - unknown_.per_ranks[before()] -
           unknown_.per_rank[before()] * coefficient(wait_.other.per_ranks) -
           unknown_.scale * coefficient(wait_.shift.per_ranks);
  }

  const RankingForAll& ranking_;
  const RoleWait& wait_;
  const Coefficients& unknown_;
};

/// Fills in scale and offsets. Returns: why not; empty: done.
std::string find_offsets(RankingForAll& ranking, const Asking& asking) {
  z3::context context;
  z3::solver solver(context, "QF_LIA");
  const Coefficients unknown(context, ranking.roles.size());
  solver.add(unknown.scale >= 1);
  for (const RoleWait& wait : ranking.waits) Constraint(ranking, wait, unknown).add_to(solver);
  const SolverReply reply = ask_z3(
      solver,
      {"ranking", kSubject, "Are there offsets, linear in rank and ranks, that rank every wait?", "QF_LIA"},
      asking.options());
  if (reply.answer == SolverQuery::Answer::unsat) return "no ranking is linear in rank and ranks";
  if (reply.answer == SolverQuery::Answer::unknown) return reply.reason;
  const z3::model model = solver.get_model();
  const auto value = [&](const z3::expr& e) { return model.eval(e, true).get_numeral_int64(); };
  ranking.scale = value(unknown.scale);
  for (std::size_t r = 0; r < ranking.roles.size(); ++r)
    ranking.roles[r].offset = {value(unknown.constant[r]), value(unknown.per_rank[r]),
                               value(unknown.per_ranks[r])};
  return {};
}

/// Each wait once more, with symbolic p, r, i and k: whether Z3 finds no instance that ranks wrongly.
class WaitCheck {
 public:
  WaitCheck(const RankingForAll& ranking, const Asking& asking)
      : ranking_(ranking),
        asking_(asking),
        p_(context_.int_const("p")),
        r_(context_.int_const("r")),
        i_(context_.int_const("i")),
        k_(context_.int_const("k")) {}

  /// Returns: why not; empty: it holds.
  std::string refute(std::size_t which) {
    const RoleWait& wait = ranking_.waits[which];
    z3::solver solver(context_, "QF_LIA");
    solver.add(p_ >= ranking_.least && i_ >= 0 && i_ < k_);
    solver.add(r_ >= line(wait.first, r_) && r_ <= line(wait.last, r_));
    const z3::expr last_needed = i_ + line(wait.shift, r_) + number(wait.growth) * k_ - 1;
    solver.add(rank_of(wait.before, r_ + line(wait.other, r_), last_needed) >= rank_of(wait.after, r_, i_));
    const SolverReply reply = ask_z3(solver, title_of(which), asking_.options());
    if (reply.answer == SolverQuery::Answer::unknown) return reply.reason;
    return reply.answer == SolverQuery::Answer::unsat ? "" : "the ranking could not be confirmed";
  }

 private:
  [[nodiscard]] QueryTitle title_of(std::size_t which) const {
    const std::string wait = "wait " + std::to_string(which);
    return {"wait-" + std::to_string(which), kSubject,
            "Is there an instance of " + wait + " that the ranking does not rank?", "QF_LIA"};
  }
  z3::expr number(std::int64_t value) { return context_.int_val(value); }
  z3::expr line(const RankLine& line, const z3::expr& rank) {
    return number(line.constant) + number(line.per_rank) * rank + number(line.per_ranks) * p_;
  }
  z3::expr rank_of(int role, const z3::expr& rank, const z3::expr& instance) {
    const Role& of = ranking_.roles[as_size(role)];
    return line(of.offset, rank) + number(ranking_.scale) * (instance + number(of.phase) * k_);
  }

  const RankingForAll& ranking_;
  const Asking& asking_;
  z3::context context_;
  z3::expr p_, r_, i_, k_;
};

std::string prove(RankingForAll& ranking, const Asking& asking) {
  try {
    if (!find_phases(ranking)) return "the waits of all microbatches have a cycle";
    if (std::string why = find_offsets(ranking, asking); !why.empty()) return why;
    WaitCheck check(ranking, asking);
    for (std::size_t wait = 0; wait < ranking.waits.size(); ++wait) {
      if (std::string why = check.refute(wait); !why.empty()) return why;
    }
    return {};
  } catch (const z3::exception& error) {
    return std::string("Z3: ") + error.msg();
  }
}

/// Collects the periodic programs of few ranks, which must hold for every number of microbatches.
class Ranks {
 public:
  Ranks(const RanksQuestion& question, const Asking& asking, AllRanksReport& report)
      : question_(question), asking_(asking), report_(report) {}

  /// Returns: whether to go on to all ranks.
  Expected<bool> run() {
    for (int p = 1; p <= kLastRanks; ++p) {
      auto of_ranks = ask(p);
      if (!of_ranks) {
        if (of_ranks.error().code != ErrorCode::bad_argument) return tl::unexpected(of_ranks.error());
        report_.verdict = Unknown{"a proof for all ranks needs every number of them, and on " +
                                  std::to_string(p) + " ranks " + of_ranks.error().message};
        return false;
      }
      if (!judge(p, *of_ranks)) return false;
      if (p < kFirstRanks) {
        report_.alone.push_back(p);
      } else {
        families.push_back(of_ranks->coverage.families.front().program);
      }
    }
    return true;
  }

  std::vector<PeriodicProgram> families;

 private:
  Expected<AllMicrobatchesReport> ask(int ranks) const {
    AllMicrobatchesOptions options;
    options.properties = {Property::matched, Property::deadlock_free};
    options.capabilities = question_.transport;
    if (question_.repetitions_for) options.repetitions = question_.repetitions_for(ranks);
    options.timeout_s = std::max(asking_.deadline.remaining_s(), 0.001);
    options.memory_budget = asking_.whole.memory_budget;
    return verify_all_microbatches(
        [&](int microbatches) { return question_.program_for(ranks, microbatches); }, options);
  }

  bool judge(int p, const AllMicrobatchesReport& of_ranks) {
    const AllMicrobatchesResult* worst = nullptr;
    for (const AllMicrobatchesResult& result : of_ranks.results) {
      if (std::holds_alternative<Proved>(result.verdict)) continue;
      // matched is unknown where deadlock freedom is refuted: the refuted property says more.
      if (worst == nullptr || std::holds_alternative<Refuted>(result.verdict)) worst = &result;
    }
    if (worst != nullptr) {
      report_.verdict = worst->verdict;
      report_.property = worst->property;
      if (auto* unknown = std::get_if<Unknown>(&report_.verdict))
        unknown->reason = std::to_string(p) + " ranks: " + unknown->reason;
      report_.ranks = p;
      report_.microbatches = worst->microbatches;
      return false;
    }
    const auto& found = of_ranks.coverage.families;
    if (p < kFirstRanks || (found.size() == 1 && found.front().program.first == 1)) return true;
    const std::string instead = found.size() == 1
                                    ? "it begins at m = " + std::to_string(of_ranks.coverage.alone.back() + 1)
                                    : "there are " + std::to_string(found.size());
    report_.verdict =
        Unknown{"a proof for all ranks needs one periodic program for all microbatches, and on " +
                std::to_string(p) + " ranks " + instead};
    return false;
  }

  const RanksQuestion& question_;
  const Asking& asking_;
  AllRanksReport& report_;
};

/// Without a residency limit.
Expected<AllRanksReport> decide(const RanksQuestion& question, const Asking& asking) {
  AllRanksReport report;
  Ranks ranks(question, asking, report);
  PPSIM_ASSIGN_OR_RETURN(const auto go_on, ranks.run());
  if (!go_on) return report;
  const Deadline clock(0);
  auto roles = find_roles(ranks.families);
  if (!roles) {
    report.verdict = Unknown{roles.error().message};
    return report;
  }
  const std::string why = prove(*roles, asking);
  report.seconds = -clock.remaining_s();
  if (why.empty()) {
    report.verdict = Proved{};
    report.ranking = *std::move(roles);
  } else {
    report.verdict = Unknown{why};
  }
  return report;
}

/// Few ranks under a residency limit that they reach: no ranking counts places, so nothing follows for more.
Expected<AllRanksReport> decide_for_few(const RanksQuestion& question, const Asking& asking, int in_flight) {
  AllRanksReport report;
  PPSIM_ASSIGN_OR_RETURN(const auto go_on, Ranks(question, asking, report).run());
  if (go_on) {
    report.verdict = Unknown{"holds on up to " + std::to_string(kLastRanks) +
                             " ranks, where a rank has up to " + std::to_string(in_flight) +
                             " operations in flight; a residency limit that can be reached is not followed "
                             "over all ranks"};
  }
  return report;
}

/// The most operations that a rank can have in flight in Programs that are asked for.
class CountedPrograms {
 public:
  explicit CountedPrograms(const ProgramForRanks& program_for) : program_for_(program_for) {}

  Expected<Program> get(int ranks, int microbatches) {
    auto program = program_for_(ranks, microbatches);
    if (program) max_[ranks] = std::max(max_[ranks], max_in_flight(*program));
    return program;
  }
  /// Whether all ranks have at most so many, more of them no more than those that were asked for.
  [[nodiscard]] bool never_exceed(int limit) {
    return max_[kFirstRanks] == max_[kLastRanks] && most() <= limit;
  }
  [[nodiscard]] int most() const {
    int most = 0;
    for (const auto& [ranks, of_ranks] : max_) most = std::max(most, of_ranks);
    return most;
  }

 private:
  const ProgramForRanks& program_for_;
  std::map<int, int> max_;  ///< by number of ranks
};

}  // namespace

Expected<AllRanksReport> verify_all_ranks(const ProgramForRanks& program_for, const SolverOptions& options,
                                          const TransportCapabilities& transport,
                                          const RepetitionsForRanks& repetitions_for) {
  const Deadline deadline(options.timeout_s);
  const Asking asking{deadline, options};
  CountedPrograms programs(program_for);
  const ProgramForRanks counted = [&](int ranks, int microbatches) {
    return programs.get(ranks, microbatches);
  };
  TransportCapabilities unlimited = transport;
  unlimited.residency.reset();
  auto report = decide({counted, repetitions_for, unlimited}, asking);
  // A Program that hangs with places for all hangs with fewer.
  const bool settled = !report || std::holds_alternative<Refuted>(report->verdict);
  if (settled || !transport.residency || programs.never_exceed(*transport.residency)) return report;
  return decide_for_few({program_for, repetitions_for, transport}, asking, programs.most());
}

}  // namespace ppsim::verifier

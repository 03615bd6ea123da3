#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/repetition.hpp"
#include "ppsim/verifier/parameterized/periodic.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// constant + per_rank * r + per_ranks * p, on rank r of p.
struct RankLine {
  std::int64_t constant = 0;
  std::int64_t per_rank = 0;
  std::int64_t per_ranks = 0;

  [[nodiscard]] std::int64_t at(std::int64_t r, std::int64_t p) const {
    return constant + per_rank * r + per_ranks * p;
  }
  friend bool operator==(const RankLine&, const RankLine&) = default;
};

/// An event that rank after rank has: an action, or a transfer seen from its sender.
struct Role {
  std::string name;  ///< "F", "SEND_F to RECV_F of rank + 1"
  /// Instance i on rank r of p, with k microbatches: offset.at(r, p) + scale * (i + phase * k).
  RankLine offset;
  std::int64_t phase = 0;

  friend bool operator==(const Role&, const Role&) = default;
};

/// A wait that ranks first .. last have (lines in p alone): instance i of `after` on rank r needs the first
/// i + shift + growth * k instances of `before` on rank r + other, as far as there are so many.
struct RoleWait {
  int before = 0;
  int after = 0;
  RankLine other;
  RankLine shift;
  std::int64_t growth = 0;
  RankLine first;
  RankLine last;

  friend bool operator==(const RoleWait&, const RoleWait&) = default;
};

/// A schedule for every number of ranks p >= least and of microbatches, and a ranking that all waits
/// decrease.
struct RankingForAll {
  int least = 1;            ///< ranks
  std::vector<int> agrees;  ///< numbers of ranks whose periodic programs have just these waits
  std::int64_t scale = 1;
  std::vector<Role> roles;
  std::vector<RoleWait> waits;
};

/// The verdict for every number of ranks and of microbatches.
struct AllRanksReport {
  Property property = Property::deadlock_free;  ///< refuted: matched, where that is what breaks
  Verdict verdict;
  RankingForAll ranking;   ///< proved: for ranks from `least` on
  std::vector<int> alone;  ///< fewer ranks, each proved for all microbatches by itself
  int ranks = 0;           ///< refuted: by this many ranks
  int microbatches = 0;    ///< refuted: and this many microbatches
  double seconds = 0;      ///< of the proof for all ranks, without generating and recognising
};

/// "scale 4; F: r - 2p; ..." and the waits, as lines.
[[nodiscard]] std::vector<std::string> to_lines(const RankingForAll& ranking);

/// The Program of a schedule for numbers of ranks and microbatches.
using ProgramForRanks = std::function<Expected<Program>(int ranks, int microbatches)>;
/// Knowledge of them for a number of ranks; may be empty, and then nothing is proved.
using RepetitionsForRanks = std::function<Repetitions(int ranks)>;

/// Proves deadlock freedom for every number of ranks and of microbatches, for schedules that repeat with each
/// microbatch from the first one on and whose ranks wait alike, by shifts linear in r and p. Few orders do so
/// under ordered launches. A residency limit is proved safe only where no rank can reach it.
///
/// The ranking is a solution of linear constraints, two for each end of a wait's range of ranks, and is
/// checked again wait by wait with symbolic p, r, i and k (Z3). Few ranks are recognised and proved for all
/// microbatches, matching included; that more ranks go on as these do is an assumption.
/// Errors: those of `program_for` other than refusals.
[[nodiscard]] Expected<AllRanksReport> verify_all_ranks(const ProgramForRanks& program_for,
                                                        const SolverOptions& options = {},
                                                        const TransportCapabilities& transport = {},
                                                        const RepetitionsForRanks& repetitions_for = {});

/// The waits that the periodic programs of p = least, least + 1, ... ranks have in common, without a ranking.
/// Errors: refused, naming what differs.
[[nodiscard]] Expected<RankingForAll> find_roles(const std::vector<PeriodicProgram>& families);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::AllRanksReport;
using verifier::find_roles;
using verifier::ProgramForRanks;
using verifier::RankingForAll;
using verifier::RankLine;
using verifier::RepetitionsForRanks;
using verifier::Role;
using verifier::RoleWait;
using verifier::to_lines;
using verifier::verify_all_ranks;
}  // namespace ppsim

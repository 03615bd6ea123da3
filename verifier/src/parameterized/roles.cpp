#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/verifier/parameterized/all_ranks.hpp"

namespace ppsim::verifier {
namespace {

/// Ranks apart, as it reads for any number of ranks: the way round from the last rank to the first has d1.
struct Apart {
  std::int64_t constant = 0;
  std::int64_t per_ranks = 0;
  friend auto operator<=>(const Apart&, const Apart&) = default;
};

Apart apart(std::int64_t ranks_apart, int ranks) {
  if (ranks_apart == 1 - ranks) return {1, -1};
  if (ranks_apart == ranks - 1) return {-1, 1};
  return {ranks_apart, 0};
}

/// One member of an event, as every rank's looks.
struct MemberKey {
  std::vector<std::tuple<OpKind, int, int>> actions;  ///< kind, chunk, slice
  Apart from_first;                                   ///< ranks from the first member
  friend auto operator<=>(const MemberKey&, const MemberKey&) = default;
};
using RoleKey = std::vector<MemberKey>;

/// Which wait of which roles: those of one key differ in rank and number of ranks only.
using WaitKey = std::tuple<int, int, Apart, std::int64_t>;  // before, after, apart, growth

struct SamplePoint {
  int ranks = 0;
  int rank = 0;
  friend auto operator<=>(const SamplePoint&, const SamplePoint&) = default;
};
using Samples = std::map<SamplePoint, std::int64_t>;

/// The line through all samples. Where each number of ranks has one rank only, it does not depend on r.
std::optional<RankLine> line_through(const Samples& samples) {
  RankLine line;
  const auto& [origin, value] = *samples.begin();
  for (const auto& [point, other] : samples) {
    if (point.ranks == origin.ranks && point.rank == origin.rank + 1) line.per_rank = other - value;
  }
  for (const auto& [point, other] : samples) {
    if (point.ranks == origin.ranks + 1) {
      line.per_ranks = other - value - line.per_rank * (point.rank - origin.rank);
      break;
    }
  }
  line.constant = value - line.per_rank * origin.rank - line.per_ranks * origin.ranks;
  const bool through = std::ranges::all_of(samples, [&](const auto& sample) {
    return line.at(sample.first.rank, sample.first.ranks) == sample.second;
  });
  return through ? std::optional(line) : std::nullopt;
}

/// Roles and waits over several numbers of ranks.
class RoleFinder {
 public:
  explicit RoleFinder(const std::vector<PeriodicProgram>& families) : families_(families) {}

  Expected<RankingForAll> run() {
    for (const PeriodicProgram& family : families_) collect(family);
    result_.least = families_.front().ranks;
    for (const PeriodicProgram& family : families_) result_.agrees.push_back(family.ranks);
    for (const auto& [key, samples] : shifts_) {
      PPSIM_RETURN_IF_ERROR(add_wait(key, samples));
    }
    return std::move(result_);
  }

 private:
  static tl::unexpected<Error> refused(const std::string& why) { return make_error(ErrorCode::refused, why); }

  /// Which of the rank's stages, in ascending order.
  static int chunk_of(const std::vector<int>& stages, int stage) {
    return static_cast<int>(std::ranges::lower_bound(stages, stage) - stages.begin());
  }

  static std::vector<std::vector<int>> stages_of(const PeriodicProgram& family) {
    std::vector<std::vector<int>> stages(as_size(family.ranks));
    for (const Series& series : family.series) {
      for (const Action& action : series.actions) stages[series.rank.index()].push_back(action.subject);
    }
    for (std::vector<int>& of_rank : stages) {
      sort_unique(of_rank);
    }
    return stages;
  }

  void collect(const PeriodicProgram& family) {
    const auto stages = stages_of(family);
    std::vector<int> role_of(family.events.size());
    std::vector<int> anchor(family.events.size());
    for (std::size_t e = 0; e < family.events.size(); ++e) {
      anchor[e] = family.series[as_size(family.events[e].front())].rank.value();
      RoleKey key;
      for (const int s : family.events[e]) {
        const Series& series = family.series[as_size(s)];
        MemberKey member{{}, apart(series.rank.value() - anchor[e], family.ranks)};
        for (const Action& action : series.actions)
          member.actions.emplace_back(action.kind, chunk_of(stages[series.rank.index()], action.subject),
                                      static_cast<int>(action.slice));
        key.push_back(std::move(member));
      }
      role_of[e] = role(key);
    }
    for (const SeriesWait& wait : family.waits) {
      const auto before = as_size(family.series[as_size(wait.before)].event);
      const auto after = as_size(family.series[as_size(wait.after)].event);
      const WaitKey key{role_of[before], role_of[after], apart(anchor[before] - anchor[after], family.ranks),
                        wait.shift.per_period};
      std::int64_t& shift =
          shifts_[key].try_emplace({family.ranks, anchor[after]}, wait.shift.constant).first->second;
      shift = std::max(shift, wait.shift.constant);
    }
  }

  int role(const RoleKey& key) {
    const auto [found, is_new] = roles_.try_emplace(key, static_cast<int>(roles_.size()));
    if (is_new) result_.roles.push_back({name_of(key), {}, 0});
    return found->second;
  }

  static std::string name_of(const RoleKey& key) {
    std::string name;
    for (const MemberKey& member : key) {
      if (!name.empty()) name += " to ";
      for (const auto& [kind, chunk, slice] : member.actions) {
        if (name.ends_with(')') || (!name.empty() && !name.ends_with(' '))) name += ";";
        name += std::string(info(kind).text) + (chunk > 0 ? " of chunk " + std::to_string(chunk) : "") +
                (slice > 0 ? "." + std::to_string(slice) : "");
      }
    }
    return name;
  }

  /// The ranks that have the wait are a range whose ends are lines in p.
  [[nodiscard]] Expected<void> add_wait(const WaitKey& key, const Samples& samples) {
    const auto& [before, after, other, growth] = key;
    Samples first;
    Samples last;
    std::map<int, int> count;
    for (const auto& [point, shift] : samples) {
      first.try_emplace({point.ranks, 0}, point.rank);
      last[{point.ranks, 0}] = point.rank;
      ++count[point.ranks];
    }
    const std::string what =
        result_.roles[as_size(after)].name + " waits for " + result_.roles[as_size(before)].name;
    for (const PeriodicProgram& family : families_) {
      const SamplePoint p{family.ranks, 0};
      if (!first.contains(p) || last[p] - first[p] + 1 != count[family.ranks])
        return refused(what + " on ranks that are no range for " + std::to_string(family.ranks) + " ranks");
    }
    const auto from = line_through(first);
    const auto to = line_through(last);
    const auto shift = line_through(samples);
    if (!from || !to || !shift) return refused(what + " by shifts that are no line in rank and ranks");
    result_.waits.push_back(
        {before, after, {other.constant, 0, other.per_ranks}, *shift, growth, *from, *to});
    return {};
  }

  const std::vector<PeriodicProgram>& families_;
  std::map<RoleKey, int> roles_;
  std::map<WaitKey, Samples> shifts_;
  RankingForAll result_;
};

std::string text_of(const RankLine& line) {
  std::string text = std::to_string(line.constant);
  for (const auto& [factor, name] : {std::pair(line.per_rank, "r"), std::pair(line.per_ranks, "p")}) {
    if (factor == 0) continue;
    text += factor < 0 ? " - " : " + ";
    const std::int64_t size = factor < 0 ? -factor : factor;
    text += (size == 1 ? "" : std::to_string(size)) + name;
  }
  return text;
}

}  // namespace

Expected<RankingForAll> find_roles(const std::vector<PeriodicProgram>& families) {
  if (families.size() < 3)
    return make_error(ErrorCode::refused, "three numbers of ranks are needed to see how they go on");
  for (const PeriodicProgram& family : families) {
    if (family.rule.period > 1) return make_error(ErrorCode::refused, "the schedule has a longer period");
    if (family.rule.head + family.rule.tail > 0)
      return make_error(ErrorCode::refused,
                        "warm-up or cool-down do not wait as the microbatches between them do");
  }
  return RoleFinder(families).run();
}

std::vector<std::string> to_lines(const RankingForAll& ranking) {
  std::vector<std::string> lines;
  for (const Role& role : ranking.roles) {
    std::string line = role.name + " of microbatch i on rank r: " + std::to_string(ranking.scale) + "i";
    if (role.phase != 0) line += " + " + std::to_string(ranking.scale * role.phase) + "m";
    lines.push_back(line + " + " + text_of(role.offset));
  }
  return lines;
}

}  // namespace ppsim::verifier

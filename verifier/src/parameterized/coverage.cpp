#include <algorithm>
#include <numeric>
#include <set>

#include "source.hpp"

namespace ppsim::verifier {
namespace {

constexpr int kMinCompared = 64;  // microbatches, where that many may be generated

/// How many numbers in a row, from where the schedule repeats on, tell which periodic program all others are
/// members of: each two that are a period of both kinds apart.
int run_length(const CoverageOptions& options, int period) {
  return options.repetition ? 2 * std::lcm(period, options.repetition->period) : 2 * period;
}

/// Finds the periodic program of one remainder.
class FamilySearch {
 public:
  FamilySearch(Source& source, const CoverageOptions& options)
      : source_(source), options_(options), ranks_(options.ranks), dense_(options.dense) {}

  /// Nothing where something does not repeat, which `why` names.
  std::optional<Family> find(int period, int remainder, std::string& why) {
    differs_at_ = 0;
    for (const SeriesRule& rule : rules(period, remainder)) {
      const int from = first_number(rule, remainder);
      if (!source_.may_generate(2 * from + 4 * period)) {
        if (why.empty()) why = kSampleLimit;
        continue;
      }
      const auto at_k = source_.get(from);
      const auto at_next = source_.get(from + period);
      if (at_k == nullptr || at_next == nullptr) {
        why = "the schedule refuses m = " + std::to_string(at_k == nullptr ? from : from + period);
        return std::nullopt;
      }
      auto program = find_periodic(*at_k, *at_next, rule, options_.with_tensors);
      if (program) {
        if (auto family = confirmed(*std::move(program), from, why)) return family;
      } else if (why.empty()) {
        why = program.error().message;
      }
    }
    return std::nullopt;
  }

  /// The largest number that was compared with a periodic program and is no member; 0: none.
  [[nodiscard]] int differs_at() const { return differs_at_; }

 private:
  /// Ways to cut a schedule: everything repeats; the warm-up does not; neither warm-up nor cool-down do.
  [[nodiscard]] std::vector<SeriesRule> rules(int period, int remainder) const {
    std::vector<SeriesRule> result;
    for (const int span :
         std::set<int>{0, period, ranks_, 2 * ranks_, 4 * ranks_, remainder * (period + 1)}) {
      result.push_back({period, span, 0, options_.launches});
      if (span > 0) result.push_back({period, span, span, options_.launches});
    }
    std::ranges::stable_sort(
        result, [](const SeriesRule& a, const SeriesRule& b) { return a.head + a.tail < b.head + b.tail; });
    return result;
  }

  /// The smallest number of the remainder that holds warm-up, cool-down and some periods.
  [[nodiscard]] int first_number(const SeriesRule& rule, int remainder) const {
    int least = steady_from(ranks_) + rule.head + rule.tail + 2 * rule.period;
    // An instruction that comes once a period is not seen while head and tail take all of them.
    if (options_.updates) least = std::max(least, rule.period * (rule.head + rule.tail));
    return (least / rule.period + 1) * rule.period + remainder;
  }

  /// The numbers of the remainder to compare with, descending.
  [[nodiscard]] std::vector<int> numbers(const PeriodicProgram& program, int from) const {
    std::set<int, std::greater<>> result{from, from + program.rule.period, from + 2 * program.rule.period};
    // Far ahead as well: nothing says that a schedule goes on as it began.
    for (const int far : {2, 4, 8}) {
      const int m = from + far * steady_from(ranks_) * program.rule.period;
      if (source_.affords(2 * m)) result.insert(m);
    }
    // One number that differs says nothing about the next: of those in reach none is left out.
    const int last = every_number_to(program.rule.period, from);
    for (int m = 1; m <= std::max(from, last); ++m) {
      const bool near = m % ranks_ <= 1 || (m + 1) % ranks_ == 0;
      if (m % program.rule.period == program.remainder && (m <= last || (near && source_.affords(4 * m))))
        result.insert(m);
    }
    return {result.begin(), result.end()};
  }

  [[nodiscard]] int every_number_to(int period, int from) const {
    const int begin = std::max(from, (options_.repetition ? options_.repetition->from : 1));
    const int wanted = std::max({kMinCompared, dense_, begin + run_length(options_, period)});
    return may_generate_all(source_, wanted, period) ? wanted : dense_;
  }

  /// Compares with other numbers, from the largest on down to the first that is no member.
  std::optional<Family> confirmed(PeriodicProgram program, int from, std::string& why) {
    Family family{std::move(program), {}};
    for (const int m : numbers(family.program, from)) {
      const auto sample = source_.get(m);
      if (sample == nullptr) break;
      const auto member = check_member(family.program, *sample);
      if (!member && m >= from) {
        differs_at_ = std::max(differs_at_, m);
        why = "m = " + std::to_string(m) + ": " + member.error().message;
        return std::nullopt;
      }
      if (!member) break;
      family.agrees.push_back(m);
      family.program.first = m / family.program.rule.period;
    }
    std::ranges::reverse(family.agrees);
    if (family.agrees.size() < 3) return std::nullopt;
    return family;
  }

  Source& source_;
  const CoverageOptions& options_;
  int ranks_;
  int dense_;
  int differs_at_ = 0;
};

bool refuses_remainder(Source& source, int period, int remainder, int up_to) {
  for (int m = remainder == 0 ? period : remainder; m <= up_to + period; m += period) {
    if (!source.may_generate(m) || source.get(m) != nullptr) return false;
  }
  return true;
}

/// The numbers of microbatches of a family.
std::string family_text(int remainder, int period) {
  if (period == 1) return "m = 1, 2, ...";
  return "m = " + (remainder > 0 ? std::to_string(remainder) + " + " : "") + std::to_string(period) + "k";
}

Coverage cover(Source& source, const CoverageOptions& options, int period) {
  Coverage coverage;
  for (int remainder = 0; remainder < period; ++remainder) {
    if (refuses_remainder(source, period, remainder, steady_from(options.ranks))) continue;
    std::string why;
    FamilySearch search(source, options);
    if (auto family = search.find(period, remainder, why)) {
      coverage.families.push_back(*std::move(family));
    } else {
      coverage.differs_at = std::max(coverage.differs_at, search.differs_at());
      coverage.uncovered.push_back(family_text(remainder, period) + ": " + why);
    }
  }
  return coverage;
}

bool is_member(const Coverage& coverage, int m) {
  return std::ranges::any_of(coverage.families, [&](const Family& family) {
    const PeriodicProgram& program = family.program;
    return m % program.rule.period == program.remainder && m >= program.microbatches(program.first);
  });
}

/// The numbers, as far as the schedule accepts them, that are members of no family, up to `dense`,
/// coverage.differs_at and the first member of each family. Stops at one that is too large to generate, and
/// adds it to coverage.uncovered.
std::vector<int> alone(Source& source, Coverage& coverage, int dense) {
  int last = std::max(dense, coverage.differs_at);
  for (const Family& family : coverage.families)
    last = std::max(last, family.program.microbatches(family.program.first));
  std::vector<int> result;
  for (int m = 1; m <= last; ++m) {
    if (is_member(coverage, m)) continue;
    if (m > dense && !source.may_generate(m)) {
      coverage.uncovered.push_back("m = " + std::to_string(m) + ", ...: " + kSampleLimit);
      break;
    }
    if (source.get(m) != nullptr) result.push_back(m);
  }
  return result;
}

/// The largest number up to which each one was looked at.
int compared_to(Source& source, const Coverage& coverage) {
  std::set<int> seen(coverage.alone.begin(), coverage.alone.end());
  for (const Family& family : coverage.families) seen.insert(family.agrees.begin(), family.agrees.end());
  if (seen.empty()) return 0;
  const auto is_refused = [&](int m) { return source.get(m) == nullptr && source.refused().contains(m); };
  int m = 1;
  while (m <= *seen.rbegin() && (seen.contains(m) || is_refused(m))) ++m;
  return m - 1;
}

/// Whether the family agrees at all of its numbers of a run from where the schedule repeats on.
bool agrees_in_a_run(const Family& family, int from, int length) {
  const int period = family.program.rule.period;
  int in_a_row = 0;
  for (std::size_t i = 0; i < family.agrees.size(); ++i) {
    const int m = family.agrees[i];
    if (m < from) continue;
    in_a_row = in_a_row > 0 && family.agrees[i - 1] + period == m ? in_a_row + 1 : 1;
    if (in_a_row * period >= length) return true;
  }
  return false;
}

/// Finds the numbers that are members because the schedule repeats, or adds to coverage.uncovered those that
/// would have to be compared for that.
void add_repetition(const Source& source, const CoverageOptions& options, Coverage& coverage) {
  if (!options.repetition || !coverage.uncovered.empty()) return;
  const int from = options.repetition->from;
  const std::string why = std::string(": ") + (source.is_late() ? kTimeLimit : kSampleLimit);
  if (coverage.compared_to < from - 1)
    coverage.uncovered.push_back("m = " + std::to_string(coverage.compared_to + 1) + ", ..." + why);
  for (const Family& family : coverage.families) {
    const int period = family.program.rule.period;
    if (!agrees_in_a_run(family, from, run_length(options, period)))
      coverage.uncovered.push_back(family_text(family.program.remainder, period) + why);
  }
  if (coverage.uncovered.empty()) coverage.repeats_from = std::max(from, coverage.compared_to + 1);
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (last > i) text += (last == i + 1 ? ", " : "..") + std::to_string(numbers[last]);
    i = last;
  }
  return text;
}

std::string family_line(const Family& family) {
  const PeriodicProgram& program = family.program;
  const int first = program.microbatches(program.first);
  std::string text = "m = ";
  for (int i = 0; i < 3; ++i) text += std::to_string(first + i * program.rule.period) + ", ";
  return text + "...: the periodic program that equals the generated one at m = " + list_of(family.agrees);
}

}  // namespace

Coverage find_coverage(Source& source, const CoverageOptions& options) {
  std::optional<Coverage> best;
  for (const int period : std::set<int>{1, 2, options.ranks, 2 * options.ranks}) {
    Coverage coverage = cover(source, options, period);
    if (source.failure()) break;
    const bool complete = !coverage.families.empty() && coverage.uncovered.empty();
    const auto share = [](const Coverage& c) {
      return static_cast<double>(c.families.size()) /
             std::max(1.0, static_cast<double>(c.families.size() + c.uncovered.size()));
    };
    if (!best || share(coverage) > share(*best)) best = std::move(coverage);
    if (complete) break;
  }
  Coverage result = best.value_or(Coverage{});
  if (result.families.empty() && result.uncovered.empty())
    result.uncovered.emplace_back("m = 1, 2, ...: few numbers are accepted");
  result.alone = alone(source, result, options.dense);
  result.compared_to = compared_to(source, result);
  add_repetition(source, options, result);
  result.refused.assign(source.refused().begin(), source.refused().end());
  return result;
}

std::vector<std::string> to_lines(const Coverage& coverage) {
  std::vector<std::string> lines;
  for (const Family& family : coverage.families) lines.push_back(family_line(family));
  if (!coverage.alone.empty()) lines.push_back("m = " + list_of(coverage.alone) + ": each by itself");
  if (!coverage.refused.empty()) lines.push_back("m = " + list_of(coverage.refused) + ": refused");
  if (coverage.repeats_from)
    lines.push_back("m = " + std::to_string(*coverage.repeats_from) +
                    ", ...: as these, by how the schedule is made, where they were not compared");
  for (const std::string& line : coverage.uncovered) lines.push_back(line + " (no periodic program found)");
  return lines;
}

}  // namespace ppsim::verifier

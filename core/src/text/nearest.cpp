#include "ppsim/core/text/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <vector>

namespace ppsim {
namespace {

/// Number of characters to insert, delete or replace to make one text the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_separator(char c) { return c == '-' || c == '_' || c == '.' || c == ' '; }

/// Without case and what stands between words: ZB_V and zbv are zb-v.
std::string bare(std::string_view text) {
  std::string result = lower_case(text);
  std::erase_if(result, is_separator);
  return result;
}

bool is_subsequence(std::string_view part, std::string_view whole) {
  for (const char c : whole) {
    if (!part.empty() && part.front() == c) part.remove_prefix(1);
  }
  return part.empty();
}

/// The words of a name, which separators and capitals begin: Schedule, Zero and Bubble of ScheduleZeroBubble.
/// In lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  bool was_lower = false;
  for (const char c : name) {
    const bool separates = is_separator(c);
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if ((separates || (upper && was_lower)) && !words.back().empty()) words.emplace_back();
    if (!separates) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    was_lower = std::islower(static_cast<unsigned char>(c)) != 0;
  }
  return words;
}

/// How many of the words are a part of a name: one for the word itself, several for their initials, else 0.
std::size_t words_of_part(std::span<const std::string> words, std::string_view part) {
  if (words.front() == part) return 1;
  std::string initials;
  for (const std::string& word : words.first(std::min(words.size(), part.size())))
    initials += word.substr(0, 1);
  return initials.size() > 1 && initials == part ? part.size() : 0;
}

/// Whether every part of the candidate is in the name, in order, and some by their initials: zb-h1 is short
/// for zero-bubble-h1.
bool is_short_for(std::string_view candidate, std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  std::span<const std::string> left = words;
  bool shortens = false;
  for (const std::string& part : words_of(candidate)) {
    std::size_t taken = 0;
    while (taken == 0) {
      if (left.empty()) return false;
      taken = words_of_part(left, part);
      left = left.subspan(std::max<std::size_t>(taken, 1));
    }
    shortens = shortens || taken > 1;
  }
  return shortens;
}

/// How far a candidate is from what was written, of five kinds: the same but for case and separators; what
/// was written and more; short for it; a few letters off; a part of what was written, the longer the nearer.
/// Nothing when it is farther.
std::optional<std::size_t> distance_of(std::string_view name, std::string_view candidate) {
  constexpr std::size_t kBegins = 1, kContains = 2, kShortens = 500, kDiffers = 1000, kHolds = 100000;
  if (bare(name) == bare(candidate)) return 0;
  const std::string written = lower_case(name);
  const std::string other = lower_case(candidate);
  const std::size_t at = other.find(written);
  if (name.size() >= 2 && at == 0) return kBegins;
  if (name.size() >= 3 && at != std::string::npos && !name.starts_with('-')) return kContains + other.size();
  if (!name.starts_with('-') && is_short_for(candidate, name))
    return kShortens - std::min(kShortens, other.size());
  const std::size_t distance = edit_distance(written, other);
  if (distance > std::max<std::size_t>(2, name.size() / 3)) {
    const std::string part = bare(candidate);
    const bool holds =
        part.size() >= 3 && !name.starts_with('-') && bare(name).find(part) != std::string::npos;
    return holds ? std::optional(kHolds - part.size()) : std::nullopt;
  }
  // Letters are left out more often than mistaken.
  return kDiffers + 2 * distance + (is_subsequence(written, other) ? 0 : 1);
}

}  // namespace

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  std::optional<std::size_t> least;
  for (const std::string_view candidate : known) {
    const std::optional<std::size_t> distance = distance_of(name, candidate);
    if (!distance || (least && *distance >= *least)) continue;
    least = distance;
    best = candidate;
  }
  return best.empty() ? "" : " (did you mean \"" + std::string(best) + "\"?)";
}

Error unknown_name(const std::string& message, std::string_view name, std::span<const std::string_view> known,
                   const std::string& before) {
  return {ErrorCode::bad_argument,
          message + suggestion(name, known),
          {.found = std::string(name), .expected = before + joined(known)}};
}

}  // namespace ppsim

#include "plain_rows.hpp"

#include <algorithm>

#include "cells.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"

namespace ppsim {
namespace {

/// Which stages and microbatches passes name.
class NamedPasses {
 public:
  /// False for a stage of another rank, and for ids beyond those of any size.
  bool add(RankId rank, const TorchAction& pass) {
    if (pass.subject >= kMaxId || pass.number >= kMaxId) return false;
    at(microbatches_, pass.number) = 1;
    return place(pass.subject, rank);
  }

  /// Adds what others name; false where they have a stage on another rank.
  bool add(const NamedPasses& others) {
    for (std::size_t m = 0; m < others.microbatches_.size(); ++m)
      at(microbatches_, static_cast<std::int32_t>(m)) |= others.microbatches_[m];
    for (std::size_t s = 0; s < others.placement_.size(); ++s) {
      const RankId rank = others.placement_[s];
      if (rank.valid() && !place(static_cast<std::int32_t>(s), rank)) return false;
    }
    return true;
  }

  /// Nothing where ids between others are missing.
  [[nodiscard]] std::optional<Pipeline> pipeline(std::size_t ranks) const {
    if (std::ranges::count(microbatches_, 0) > 0 || std::ranges::count(placement_, RankId()) > 0)
      return std::nullopt;
    auto chain = make_chain(static_cast<int>(ranks), static_cast<int>(placement_.size()),
                            static_cast<int>(microbatches_.size()), placement_);
    return chain ? std::optional(*std::move(chain)) : std::nullopt;
  }

 private:
  static constexpr std::int32_t kMaxId = 1 << 20;

  template <class T>
  static T& at(std::vector<T>& items, std::int32_t id) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= items.size()) items.resize(index + 1);
    return items[index];
  }
  bool place(std::int32_t stage, RankId rank) {
    RankId& known = at(placement_, stage);
    if (!known.valid()) known = rank;
    return known == rank;
  }

  std::vector<char> microbatches_;  ///< 1: named
  std::vector<RankId> placement_;   ///< of stages; not valid: not named
};

/// A line, and the row that it is to fill.
struct PlainLine {
  std::string_view text;
  RankId rank;
  std::vector<Cell>& cells;
};

bool read_line(PlainLine line, const PassReader& passes, NamedPasses& named) {
  for (;;) {
    const std::optional<TorchAction> pass = passes.take(line.text);
    if (!pass || !named.add(line.rank, *pass)) return false;
    line.cells.emplace_back(make_action(pass->kind, pass->subject, pass->number));
    if (line.text.empty()) return true;
    if (line.text.front() != ',') return false;
    line.text.remove_prefix(1);
  }
}

/// The lines of a text, which end with LF or CRLF; nothing where there are more than a pipeline has ranks.
std::vector<std::string_view> lines_of(std::string_view text) {
  constexpr std::size_t kMaxLines = 1 << 16;
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    if (lines.size() == kMaxLines) return {};
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::optional<PlainRows> plain_rows(std::string_view text, const Alphabet& alphabet) {
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.empty()) return std::nullopt;
  const PassReader passes(alphabet);
  IdVector<RankId, std::vector<Cell>> rows(lines.size());
  std::size_t cells = 0;
  // Whose memory who starts the threads asks for, as others go on with it.
  for (const RankId rank : rows.ids()) {
    const std::string_view line = lines[rank.index()];
    const auto size = static_cast<std::size_t>(std::ranges::count(line, ',')) + 1;
    constexpr std::size_t kShortest = 3;  // 0F0
    if (size * (kShortest + 1) > line.size() + 1) return std::nullopt;
    rows[rank].reserve(size);
    cells += size;
  }
  const std::vector<RankRange> ranges = rank_ranges(static_cast<int>(lines.size()), cells);
  const auto parts = all_at_once(ranges.size(), [&](std::size_t i) {
    std::optional<NamedPasses> named(std::in_place);
    for (RankId rank = ranges[i].first; named && rank < ranges[i].last; rank = next(rank)) {
      if (!read_line({lines[rank.index()], rank, rows[rank]}, passes, *named)) named.reset();
    }
    return named;
  });
  NamedPasses all;
  for (const std::optional<NamedPasses>& part : parts) {
    if (!part || !all.add(*part)) return std::nullopt;
  }
  auto pipeline = all.pipeline(lines.size());
  if (!pipeline) return std::nullopt;
  return PlainRows{std::move(rows), *std::move(pipeline)};
}

}  // namespace ppsim

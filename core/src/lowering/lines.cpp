#include "lowering/lines.hpp"

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {

void LineRow::replace(const std::vector<Line>& lines) {
  actions_.clear();
  names_.clear();
  for (const Line& line : lines) {
    actions_.push_back(line.action);
    names_.push_back({line.second, line.id});
  }
}

void LineRow::name_lines() {
  names_.reserve(actions_.capacity());
  for (std::size_t i = names_.size(); i < actions_.size(); ++i)
    names_.push_back({-1, static_cast<std::int32_t>(i)});
}

void LineWriter::finish() {
  const std::size_t lines = size();
  PPSIM_CHECK(lines <= row_->actions_.size(), "more lines than there is room for");
  row_->actions_.resize(lines);
  if (time_ != nullptr) row_->times.resize(lines);
  if (pairs_.empty()) return;
  row_->name_lines();
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    row_->names_[pairs_[i]].second = static_cast<std::int32_t>(i);
}

std::vector<RankRange> ranges_of(const LineRows& rows) {
  std::size_t lines = 0;
  for (const LineRow& row : rows) lines += row.size();
  return rank_ranges(static_cast<int>(rows.size()), lines);
}

InstructionForm form_of(const LineRow& row, const Line& line) {
  if (row.second_of(line) == nullptr) return InstructionForm::single;
  return is_transfer(line.action.kind) ? InstructionForm::group : InstructionForm::overlap;
}

std::vector<AfterEdge> edges_of_places(const LineRow& row) {
  if (row.after.empty()) return {};
  std::vector<std::int32_t> place_of;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto id = as_size(row.line(i).id);
    if (place_of.size() <= id) place_of.resize(id + 1, -1);
    place_of[id] = static_cast<std::int32_t>(i);
  }
  std::vector<AfterEdge> edges;
  for (const AfterEdge& edge : row.after) {
    edges.push_back({place_of[as_size(edge.later)], place_of[as_size(edge.earlier)]});
  }
  sort_unique(edges);
  return edges;
}

}  // namespace ppsim::lowering

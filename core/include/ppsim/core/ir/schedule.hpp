#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// One cell of a rank's row: nothing (a deliberate bubble), an action, or an overlapped F and B.
class Cell {
 public:
  /// An idle cell.
  Cell() = default;
  Cell(Action action) : actions_{action, Action{}}, count_(1) {}  // NOLINT(google-explicit-constructor)
  /// OVERLAP_F_B of a forward and a backward of one rank.
  Cell(Action forward, Action backward) : actions_{forward, backward}, count_(2) {}

  [[nodiscard]] bool idle() const { return count_ == 0; }
  [[nodiscard]] bool overlapped() const { return count_ == 2; }
  [[nodiscard]] std::span<const Action> actions() const { return {actions_.data(), count_}; }

  friend bool operator==(const Cell&, const Cell&) = default;

 private:
  std::array<Action, 2> actions_ = {};
  std::uint32_t count_ = 0;
};

/// Which rank computes what, in which order: rows of cells over a Pipeline. Immutable, and complete by
/// construction: every (stage, microbatch, slice) of every route is computed exactly once, in an order that
/// each rank can follow. Transfers between stages are not part of it.
class Schedule {
 public:
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] std::span<const Cell> row(RankId rank) const { return rows_[rank]; }
  /// Number of single actions, an overlapped pair counting two.
  [[nodiscard]] std::size_t action_count() const;

  friend bool operator==(const Schedule& a, const Schedule& b) {
    return a.pipeline_ == b.pipeline_ && a.rows_ == b.rows_;
  }

 private:
  friend class ScheduleBuilder;
  Schedule(std::string name, Pipeline pipeline, IdVector<RankId, std::vector<Cell>> rows)
      : name_(std::move(name)), pipeline_(std::move(pipeline)), rows_(std::move(rows)) {}

  std::string name_;
  Pipeline pipeline_;
  IdVector<RankId, std::vector<Cell>> rows_;
};

std::ostream& operator<<(std::ostream& out, const Schedule& schedule);

/// The only way to make a Schedule.
class ScheduleBuilder {
 public:
  ScheduleBuilder(std::string name, Pipeline pipeline);
  /// Requires: one row per rank.
  ScheduleBuilder(std::string name, Pipeline pipeline, IdVector<RankId, std::vector<Cell>> rows);

  ScheduleBuilder& add(RankId rank, Cell cell);
  /// Appends F, B, I, W or R of (stage, microbatch, slice) to the row of the stage's rank.
  ScheduleBuilder& add(OpKind kind, StageId stage, MicrobatchId mb, SliceId slice = SliceId(0));

  /// Errors: ill_formed listing every broken rule, one per line, each naming rank, action, expected and
  /// found: ids out of range, a wrong rank, missing or doubled actions, B beside I or W, I without W, an
  /// action before one of its own rank that it depends on, transfers of F or B in a row.
  [[nodiscard]] Expected<Schedule> build() const&;
  /// Takes the rows instead of a copy of them.
  [[nodiscard]] Expected<Schedule> build() &&;

 private:
  std::string name_;
  Pipeline pipeline_;
  IdVector<RankId, std::vector<Cell>> rows_;
};

}  // namespace ppsim

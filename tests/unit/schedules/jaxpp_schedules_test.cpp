#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "support/closed_forms.hpp"

// The schedules of the registry against the rules of JaxPP 0.9.2 (schedules.py), by which its classes make
// their task lists. What JaxPP does not accept is left out.

namespace ppsim::test {
namespace {

enum class Kind { forward, backward, input, weight };
struct Task {
  int stage;
  int microbatch;
  Kind kind;
  friend bool operator==(const Task&, const Task&) = default;
};
using Rows = std::vector<std::vector<Task>>;

/// Counts the microbatches of each stage and kind.
class Next {
 public:
  Task operator()(int stage, Kind kind) { return {stage, count_[{stage, kind}]++, kind}; }
  [[nodiscard]] int of(int stage, Kind kind) const {
    const auto found = count_.find({stage, kind});
    return found == count_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<int, Kind>, int> count_;
};

Rows gpipe(int p, int m) {
  Rows rows(static_cast<std::size_t>(p));
  for (int s = 0; s < p; ++s) {
    Next next;
    for (const Kind kind : {Kind::forward, Kind::backward}) {
      for (int i = 0; i < m; ++i) rows[static_cast<std::size_t>(s)].push_back(next(s, kind));
    }
  }
  return rows;
}

/// Std1F1B and Eager1F1B: time steps of a warm-up, then B and F in turn.
Rows one_f_one_b(int p, int m, bool eager) {
  Rows rows(static_cast<std::size_t>(p));
  for (int s = 0; s < p; ++s) {
    std::vector<Task>& row = rows[static_cast<std::size_t>(s)];
    Next next;
    const auto add = [&](Kind kind) {
      if (next.of(s, kind) < m) row.push_back(next(s, kind));
    };
    const int to_last = p - 1 - s;
    for (int step = 0; step < 2 * (m + p - 1); ++step) {
      const int steady = step - p;
      const bool warms = step < p ? step >= s : eager && steady < to_last;
      if (warms) add(Kind::forward);
      if (steady >= to_last) add((steady + to_last) % 2 == 0 ? Kind::backward : Kind::forward);
    }
  }
  return rows;
}

/// ZeroBubble: F, then I and F in turn, then the first of I, W, F, from where it was, that is left.
Rows zero_bubble(int p, int m) {
  Rows rows(static_cast<std::size_t>(p));
  for (int s = 0; s < p; ++s) {
    std::vector<Task>& row = rows[static_cast<std::size_t>(s)];
    Next next;
    for (int i = s; i < p; ++i) row.push_back(next(s, Kind::forward));
    for (int i = 0; i < 2 * s; ++i) row.push_back(next(s, i % 2 == 0 ? Kind::input : Kind::forward));
    constexpr std::array<Kind, 3> kTurns = {Kind::input, Kind::weight, Kind::forward};
    for (std::size_t turn = 0; row.size() < static_cast<std::size_t>(3 * m); turn = (turn + 1) % 3) {
      if (next.of(s, kTurns[turn]) < m) row.push_back(next(s, kTurns[turn]));
    }
  }
  return rows;
}

struct Interleaved {
  int ranks, microbatches, chunks;
  int more = 0;  ///< forwards of the warm-up beyond that of Interleaved1F1B; KimiK2: 1
};

/// Interleaved1F1B and KimiK2; nothing where the microbatches are no whole rounds.
std::optional<Rows> interleaved(const Interleaved& of) {
  const int p = of.ranks;
  const int m = of.microbatches;
  const int rounds = std::max(1, m / p);
  if (m % rounds != 0) return std::nullopt;
  const int round = m / rounds;
  Rows rows(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    std::vector<Task>& row = rows[static_cast<std::size_t>(r)];
    Next next;
    const int all = of.chunks * m;
    const int warmup = std::min((of.chunks - 1) * round + 2 * (p - 1 - r) + of.more, all);
    const auto forward = [&](int step) {
      row.push_back(next(step / round % of.chunks * p + r, Kind::forward));
    };
    const auto backward = [&](int step) {
      row.push_back(next((of.chunks - 1 - step / round % of.chunks) * p + r, Kind::backward));
    };
    for (int i = 0; i < warmup; ++i) forward(i);
    for (int i = warmup; i < all; ++i) {
      forward(i);
      backward(i - warmup);
    }
    for (int i = all - warmup; i < all; ++i) backward(i);
  }
  return rows;
}

/// DualPipeV: F and I, W of the two stages of a rank, with I and W of a B one behind the other.
class DualPipeV {
 public:
  DualPipeV(int p, int m, int r) : p_(p), m_(m), r_(r), stages_{r, 2 * p - 1 - r} {}

  std::vector<Task> row() {
    const int to_last = p_ - 1 - r_;
    repeat(2 * to_last, [&](int) { forward(0); });
    repeat(r_ + 1, [&](int) {
      forward(0);
      forward(1);
    });
    repeat(to_last, [&](int) {
      whole(1);
      forward(1);
    });
    repeat(m_ - 2 * p_ + r_ + 1, [&](int) {
      forward(0);
      whole(1);
      forward(1);
      whole(0);
    });
    repeat(to_last, [&](int) {
      whole(1);
      forward(1);
      whole(0);
    });
    repeat(r_ + 1, [&](int i) {
      const bool second_half = i >= (r_ + 1) / 2;
      backward(1, second_half && r_ % 2 == 1);
      backward(0, second_half && r_ % 2 == 0 && r_ != 0);
    });
    repeat(to_last, [&](int) { backward(0, r_ != 0); });
    for (int i = 0; i < m_; ++i) {
      for (const int stage : stages_) {
        if (i >= next_.of(stage, Kind::weight)) row_.push_back(next_(stage, Kind::weight));
      }
    }
    return row_;
  }

 private:
  template <class Body>
  static void repeat(int times, const Body& body) {
    for (int i = 0; i < times; ++i) body(i);
  }
  void forward(std::size_t which) { row_.push_back(next_(stages_[which], Kind::forward)); }
  void input(std::size_t which) { row_.push_back(next_(stages_[which], Kind::input)); }
  void whole(std::size_t which) {
    input(which);
    row_.push_back(next_(stages_[which], Kind::weight));
  }

  void backward(std::size_t which, bool splits) {
    if (splits) {
      input(which);
    } else {
      whole(which);
    }
  }

  int p_, m_, r_;
  std::array<int, 2> stages_;
  Next next_;
  std::vector<Task> row_;
};

Rows dualpipe_v(int p, int m) {
  Rows rows;
  for (int r = 0; r < p; ++r) rows.push_back(DualPipeV(p, m, r).row());
  return rows;
}

Kind kind_of(OpKind kind) {
  if (kind == OpKind::forward) return Kind::forward;
  if (kind == OpKind::backward) return Kind::backward;
  EXPECT_TRUE(kind == OpKind::backward_input || kind == OpKind::backward_weight);
  return kind == OpKind::backward_input ? Kind::input : Kind::weight;
}

/// With `halves` a B is I and W.
void add(const Action& action, bool halves, std::vector<Task>& row) {
  if (halves && action.kind == OpKind::backward) {
    row.push_back({action.subject, action.microbatch, Kind::input});
    row.push_back({action.subject, action.microbatch, Kind::weight});
  } else {
    row.push_back({action.subject, action.microbatch, kind_of(action.kind)});
  }
}

Rows rows_of(const Schedule& schedule, bool halves) {
  Rows rows(static_cast<std::size_t>(schedule.pipeline().ranks()));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const Cell& cell : schedule.row(RankId(static_cast<std::int32_t>(r)))) {
      for (const Action& action : cell.actions()) add(action, halves, rows[r]);
    }
  }
  return rows;
}

/// Counts what is equal.
class Comparison {
 public:
  void expect(const char* name, const ScheduleParameters& parameters, const std::optional<Rows>& jaxpp) {
    if (!jaxpp) return;
    const bool halves = std::string_view(name) == "dualpipe-v";
    EXPECT_TRUE(rows_of(generated(name, parameters), halves) == *jaxpp) << name << ' ' << parameters;
    ++count_;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = 0;
};

TEST(JaxppSchedules, EqualThoseOfTheRegistry) {
  Comparison comparison;
  for (int p = 1; p <= 8; ++p) {
    for (const int m : {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24}) {
      const ScheduleParameters parameters{.ranks = p, .microbatches = m};
      comparison.expect("gpipe", parameters, gpipe(p, m));
      comparison.expect("1f1b", parameters, one_f_one_b(p, m, false));
      comparison.expect("eager-1f1b", parameters, one_f_one_b(p, m, true));
      if (m >= p) comparison.expect("zb-h1", parameters, zero_bubble(p, m));
      ScheduleParameters variant = parameters;
      variant.settings = {{"variant", "jaxpp"}};
      if (m >= 2 * p) comparison.expect("dualpipe-v", variant, dualpipe_v(p, m));
      for (const int v : {2, 3, 4}) {
        ScheduleParameters chunked = parameters;
        chunked.chunks = v;
        comparison.expect("interleaved-1f1b", chunked, interleaved({p, m, v}));
        comparison.expect("kimi-k2", chunked, interleaved({p, m, v, 1}));
      }
    }
  }
  EXPECT_GE(comparison.count(), 285);
}

}  // namespace
}  // namespace ppsim::test

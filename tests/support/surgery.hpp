#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/mutants.hpp"

namespace ppsim::test {

/// An instruction with a name that outlives its place; `after` holds names.
struct Item {
  int name = 0;
  InstructionDraft draft;
};

struct At {
  std::size_t rank = 0;
  std::size_t position = 0;
};

inline bool is_single(const Item& item) { return item.draft.form == InstructionForm::single; }

/// The rows of a Program while one rule is broken: finding instructions, and moving them about. What is
/// touched is noted.
class Surgery {
 public:
  Surgery(const Program& program, std::uint64_t seed);
  /// The Program as it is now. Nothing where it cannot be built.
  std::optional<Mutant> finish();

 protected:
  using Row = std::vector<Item>;
  using Holds = std::function<bool(const Item&)>;
  using Pair = std::function<bool(const Item& earlier, const Item& later)>;

  Item& at(At place) { return rows_[place.rank][place.position]; }
  const Action& action(At place) { return at(place).draft.actions.front(); }

  void note(const Item& item);
  /// The action and, of a transfer, what belongs at the other end.
  void note_action(int name, const Action& action);

  template <class T>
  std::optional<T> one_of(const std::vector<T>& choices) {
    if (choices.empty()) return std::nullopt;
    return choices[dice_.index(choices.size())];
  }
  std::optional<At> find(const Holds& holds);
  std::optional<At> find_single(bool (*holds)(const Action&));
  /// Two instructions of one rank, each with one action.
  std::optional<std::pair<At, At>> find_pair(const Pair& holds);

  // Each returns whether there was something to do.
  bool drop(std::optional<At> place);
  bool twice(std::optional<At> place);
  bool swap(const std::optional<std::pair<At, At>>& pair);
  bool move(std::optional<At> place, std::size_t to);
  /// The members of a group one after another, `first` foremost.
  void split(At place, std::size_t first);

  Pipeline pipeline_;
  ProgramDraft draft_;
  Dice dice_;
  std::vector<Row> rows_;
  int next_name_ = 0;
  std::vector<int> touched_;
  std::vector<Action> actions_;
};

}  // namespace ppsim::test

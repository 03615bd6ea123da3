#pragma once

#include <map>
#include <set>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim {

/// Which communicator each communication of a Program takes, for one policy: first tell all that there are,
/// then number them, then ask.
class CommunicatorAssignment {
 public:
  CommunicatorAssignment(const Pipeline& pipeline, CommunicatorPolicy policy);

  /// A misplaced action makes its rank a member too, so that the draft is a Program, if a wrong one.
  void use(const Action& action, RankId own) {
    if (!recent_of(action).is(action, own)) find(action, own);
  }
  /// Adds all that another one was told.
  void use(const CommunicatorAssignment& part);
  /// The communicators in use, numbered.
  [[nodiscard]] std::vector<Communicator> number();
  /// Takes the numbers of one that was told at least as much.
  void number_as(const CommunicatorAssignment& whole);
  /// Requires: use(action, own), then number() or number_as().
  [[nodiscard]] CommunicatorId of(const Action& action, RankId own) {
    Recent& recent = recent_of(action);
    if (!recent.is(action, own)) recent = {own, action.peer, &entries_.at(key_of(action, own))};
    return recent.entry->number;
  }

 private:
  /// The key that operations of one communicator share; its order is the order of the communicators.
  struct Key {
    enum class Kind { world, pair, edge, stage_edge, eviction_edge, collective, block, shard };
    Kind kind = Kind::world;
    int a = -1;
    int b = -1;
    int stage = -1;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    std::set<RankId> members;
    CommunicatorId number;
  };
  /// The entry that a (kind, subject) asked for last: nearly always the one that it asks for next.
  struct Recent {
    RankId own;  ///< invalid before the first
    std::int32_t peer = -1;
    Entry* entry = nullptr;

    [[nodiscard]] bool is(const Action& action, RankId rank) const {
      return own == rank && peer == action.peer;
    }
  };

  [[nodiscard]] Key key_of(const Action& action, RankId own) const;
  [[nodiscard]] Key transfer_key(const Action& transfer, RankId own) const;
  [[nodiscard]] std::string name_of(const Key& key) const;
  [[nodiscard]] std::set<RankId> fixed_members(const Key& key) const;
  [[nodiscard]] Recent& recent_of(const Action& action) {
    return recent_[static_cast<std::size_t>(action.kind) * subjects_ + as_size(action.subject)];
  }
  void find(const Action& action, RankId own);

  const Pipeline& pipeline_;
  CommunicatorPolicy policy_;
  std::size_t subjects_;
  std::map<Key, Entry> entries_;
  std::vector<Recent> recent_;  // by kind and subject
};

}  // namespace ppsim

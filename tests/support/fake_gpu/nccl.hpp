#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_gpu/ends.hpp"
#include "support/fake_gpu/machine.hpp"

namespace ppsim::test {

/// NCCL without buffers and without tags: the i-th send of a channel meets the i-th receive, both wait for
/// each other, and the operations of a communicator run one after another on each rank, in host order. Those
/// of several communicators start in the order in which a rank's device was given them, as with
/// NCCL_LAUNCH_ORDER_IMPLICIT=1. Calls that end a group return before it is enqueued: asking for the state
/// twice enqueues it. A communicator is made once all its ranks have come, wherever they run. Nothing that a
/// send is over tells about the receiver, since the real one buffers. Both ends of a message must be meant
/// for each other.
class FakeNccl {
 public:
  struct Communicator;

  FakeNccl(Faults& faults, FakeMachine& machine, const Ends& ends, Nanoseconds transfer_time)
      : faults_(faults), machine_(machine), ends_(ends), transfer_time_(transfer_time) {}

  int init(Communicator** out, int size, const std::string& id, int rank);
  int split(Communicator* parent, int color, int key, Communicator** out);
  int abort(Communicator* communicator);
  int state(Communicator* communicator, int* error);
  /// Whether some group waits to be asked for again before it is enqueued.
  [[nodiscard]] bool enqueuing() const {
    return std::any_of(communicators_.begin(), communicators_.end(),
                       [](const Communicator& one) { return one.pending != nullptr; });
  }
  void group_start() { ++open_[std::this_thread::get_id()].depth; }
  int group_end();
  [[nodiscard]] bool in_group() const {
    const auto open = open_.find(std::this_thread::get_id());
    return open != open_.end() && open->second.depth > 0;
  }
  /// Graphs that operations of a communicator were captured into.
  [[nodiscard]] static std::vector<const FakeGraph*> graphs_of(const Communicator& communicator);

  /// One operation in a group.
  struct Operation {
    enum class Kind : std::uint8_t { send, receive, all_reduce };
    Kind kind = Kind::send;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t count = 0;
    int type = 0;
    int reduction = 0;
    int peer = -1;
    Communicator* communicator = nullptr;
    FakeStream* stream = nullptr;
    std::string mark;         ///< what the host was doing
    EndActions actions = {};  ///< of which that is the communication
  };
  int add(Operation operation);

  void report_leaks();

 private:
  /// What the ranks of a communicator share.
  struct World {
    std::string name;
    int size = 0;
    std::map<int, int> number_of_key;  ///< ranks that are there, by what they are sorted by
    std::map<std::pair<int, int>, std::deque<TaskId>> sends;  ///< by source and destination
    std::map<std::pair<int, int>, std::deque<TaskId>> receives;
    std::map<int, std::deque<TaskId>> sums;                     ///< by rank
    std::vector<std::map<int, std::shared_ptr<World>>> splits;  ///< by number of the split, color
    std::vector<int> split_count;
    /// Whether all ranks have come, and to its first `begun` splits.
    [[nodiscard]] bool made(std::size_t begun) const {
      return static_cast<int>(number_of_key.size()) == size && (begun == 0 || split_count[begun - 1] == size);
    }
  };
  struct Group {
    std::vector<Operation> operations;
    int polls = 0;
  };
  struct OpenGroup {
    Group group;
    int depth = 0;
  };

 public:
  struct Communicator {
    std::shared_ptr<World> world;
    int key = 0;
    std::size_t splits = 0;
    std::shared_ptr<Group> pending;
    std::map<std::string, std::size_t> lanes;  ///< of its channels
    std::map<FakeGraph*, TaskId> last;         ///< end of its last launch
    bool alive = true;
  };

 private:
  [[nodiscard]] bool usable(const Communicator* communicator, const char* call);
  [[nodiscard]] static int number(const Communicator& communicator);
  [[nodiscard]] std::size_t lane_of(Communicator& communicator, const std::string& channel);
  void launch(Group& group);
  void launch(Communicator& communicator, const std::vector<Operation>& operations);
  void name_members(Group& group) const;
  [[nodiscard]] TaskDraft draft(const Operation& operation);
  void arrive(const Operation& operation, TaskId task);
  void match(World& world, std::pair<int, int> channel);
  void sum(World& world);
  void check_ends(const Operation& send, TaskId send_task, const Operation& receive, TaskId receive_task);
  [[nodiscard]] std::string end_text(const Operation& operation, TaskId task) const;

  Faults& faults_;
  FakeMachine& machine_;
  const Ends& ends_;
  Nanoseconds transfer_time_;
  std::deque<Communicator> communicators_;
  std::map<std::string, std::shared_ptr<World>> worlds_;  ///< by unique id
  std::map<TaskId, Operation> arrived_;
  std::map<std::pair<int, FakeGraph*>, TaskId>
      launched_;                               ///< by rank, each a device: start of the last launch
  std::map<std::thread::id, OpenGroup> open_;  ///< NCCL's groups are of a thread
};

}  // namespace ppsim::test

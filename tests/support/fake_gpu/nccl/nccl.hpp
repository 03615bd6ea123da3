#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_gpu/counts.hpp"
#include "support/fake_gpu/ends.hpp"
#include "support/fake_gpu/machine.hpp"

namespace ppsim::test {

/// NCCL without buffers and without tags: the i-th send of a channel meets the i-th receive, both wait for
/// each other, and the operations of a communicator run one after another on each rank, in host order. Those
/// of several communicators start in the order in which a rank's device was given them with
/// NCCL_LAUNCH_ORDER_IMPLICIT=1, which no graph may have: the driver crashes when it loads one. Two that meet
/// for the first time connect: peers for each direction, members of a sum for its type and size. On a
/// communicator that blocks, the call that ends a group waits for those; on another one a thread is made for
/// it, the call returns before it is enqueued, and asking for the state twice enqueues it once all have come.
/// A communicator is made once all its ranks have arrived, on whatever process they run; a blocking one is
/// not handed out before, so that nobody could abort it if some never arrive: a caller asks for it only once
/// all have. The end of a send says nothing about the receiver, since the real one buffers. Both ends of a
/// message must be meant for each other.
class FakeNccl {
 public:
  struct Communicator;

  struct Host {
    Faults& faults;
    FakeMachine& machine;
    const Ends& ends;
    Nanoseconds transfer_time;
    std::function<void(int process, std::size_t FakeCounts::*)> count;
    std::function<void(int process, const std::string&)> creating;
    std::function<bool(int process)> in_step;
    std::function<bool()> orders_launches;
  };
  explicit FakeNccl(Host host)
      : host_(std::move(host)),
        faults_(host_.faults),
        machine_(host_.machine),
        ends_(host_.ends),
        transfer_time_(host_.transfer_time) {}

  /// A request for a communicator: its rank, or the key by which a split sorts, and whether its calls block.
  struct Wanted {
    int rank = 0;
    bool blocks = false;
    int device = 0;            ///< of a rank of the communicator of all
    std::string machine = {};  ///< that NCCL takes it to be on; empty: that of the others without one
    int process = 0;           ///< and the one that asks for it
  };
  int init(Communicator** out, int size, const std::string& id, Wanted wanted);
  int split(Communicator* parent, int color, Wanted wanted, Communicator** out);
  int abort(Communicator* communicator);
  int state(Communicator* communicator, int* error);
  /// Whether some group waits to be asked for again before it is enqueued.
  [[nodiscard]] bool enqueuing() const {
    return std::any_of(communicators_.begin(), communicators_.end(),
                       [](const Communicator& one) { return one.pending != nullptr; });
  }
  void group_start() { ++open_[std::this_thread::get_id()].depth; }
  int group_end();
  /// Whether the group of this thread waits for those that have not come.
  [[nodiscard]] bool waits() const { return waiting_.contains(std::this_thread::get_id()); }
  /// Returns: in progress for as long as waits().
  int go_on();
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
    std::string mark;         ///< the NVTX mark that the host was in
    EndActions actions = {};  ///< whose communication this is

    [[nodiscard]] std::size_t bytes() const;
  };
  int add(Operation operation);

  void report_leaks();

 private:
  /// The state that the ranks of a communicator share.
  struct World {
    std::string name;
    int size = 0;
    std::set<std::pair<std::string, int>> devices = {};       ///< of the communicator of all, by machine
    std::map<int, int> number_of_key;                         ///< ranks that have arrived, by their sort keys
    std::map<std::pair<int, int>, std::deque<TaskId>> sends;  ///< by source and destination
    std::map<std::pair<int, int>, std::deque<TaskId>> receives;
    std::map<int, std::deque<TaskId>> sums;                     ///< by rank
    std::vector<std::map<int, std::shared_ptr<World>>> splits;  ///< by number of the split, color
    std::vector<int> split_count;
    std::map<std::string, std::set<int>> contacts;  ///< ranks that have come to connect, by purpose
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
    std::vector<Communicator*> opening = {};  ///< those that block
    bool duplicates = false;                  ///< a device is asked for a second rank
  };

 public:
  struct Communicator {
    std::shared_ptr<World> world;
    int key = 0;
    std::size_t splits = 0;
    std::shared_ptr<Group> pending;
    bool blocks = false;
    int process = 0;                           ///< whose host calls
    std::map<std::string, std::size_t> lanes;  ///< of its channels
    std::map<FakeGraph*, TaskId> last;         ///< end of its last launch
    bool alive = true;
  };

 private:
  [[nodiscard]] bool usable(const Communicator* communicator, const char* call);
  [[nodiscard]] static int number(const Communicator& communicator);
  [[nodiscard]] std::size_t lane_of(Communicator& communicator, const std::string& channel);
  [[nodiscard]] bool mixes(const Group& group);
  [[nodiscard]] static bool sends_to_nobody(const Group& group);
  [[nodiscard]] static std::string contact_of(const Operation& operation);
  [[nodiscard]] static std::size_t needed(const Operation& operation);
  void open(OpenGroup& group);
  void come(const Group& group);
  [[nodiscard]] static bool have_come(const Group& group);
  void launch(Group& group);
  void launch(Communicator& communicator, const std::vector<Operation>& operations);
  void name_members(Group& group) const;
  [[nodiscard]] TaskDraft draft(const Operation& operation);
  void arrive(const Operation& operation, TaskId task);
  void match(World& world, std::pair<int, int> channel);
  void sum(World& world);
  void check_ends(const Operation& send, TaskId send_task, const Operation& receive, TaskId receive_task);
  [[nodiscard]] std::string end_text(const Operation& operation, TaskId task) const;

  Host host_;
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
  std::map<std::thread::id, std::shared_ptr<Group>> waiting_;
};

}  // namespace ppsim::test

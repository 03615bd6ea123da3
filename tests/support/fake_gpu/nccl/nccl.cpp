#include "support/fake_gpu/nccl/nccl.hpp"

#include <algorithm>
#include <utility>

#include "transport/nccl/nccl_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using Operation = FakeNccl::Operation;

/// The queue in which the operations of a communicator and rank run one after another.
std::string channel_of(const Operation& operation) {
  return std::to_string(static_cast<int>(operation.kind)) + "/" + std::to_string(operation.peer);
}

}  // namespace

int FakeNccl::init(Communicator** out, int size, const std::string& id, Wanted wanted) {
  std::shared_ptr<World>& world = worlds_[id];
  if (world == nullptr)
    world = std::make_shared<World>(World{.name = "the communicator of all", .size = size});
  OpenGroup& group = open_[std::this_thread::get_id()];
  // "Duplicate GPU detected", up to NCCL 2.29; in a group by its end.
  if (!world->devices.emplace(wanted.machine, wanted.device).second) {
    if (group.depth == 0) return kNcclInvalidUsage;
    group.duplicates = true;
  }
  world->number_of_key[wanted.rank] = wanted.rank;
  communicators_.push_back(
      {.world = world, .key = wanted.rank, .blocks = wanted.blocks, .process = wanted.process});
  *out = &communicators_.back();
  if (wanted.blocks) group.opening.push_back(*out);
  if (group.depth == 0) open(group);
  return kNcclSuccess;
}

void FakeNccl::open(OpenGroup& group) {
  for (const Communicator* const one : std::exchange(group.opening, {})) {
    if (!one->world->made(0))
      faults_.add(FaultKind::bad_call,
                  "a call that nobody can end waits until all ranks of " + one->world->name + " have come");
  }
}

int FakeNccl::split(Communicator* parent, int color, Wanted wanted, Communicator** out) {
  if (!usable(parent, "ncclCommSplit")) return kNcclInvalidUsage;
  host_.count(parent->process, &FakeCounts::splits);
  World& world = *parent->world;
  const std::size_t nth = parent->splits++;
  if (nth >= world.splits.size()) {
    world.splits.resize(nth + 1);
    world.split_count.resize(nth + 1, 0);
  }
  ++world.split_count[nth];
  *out = nullptr;
  if (color == kNcclNoColor) return kNcclSuccess;
  std::shared_ptr<World>& child = world.splits[nth][color];
  if (child == nullptr) {
    child = std::make_shared<World>(
        World{.name = "communicator " + std::to_string(color) + " of split " + std::to_string(nth)});
  }
  child->number_of_key[wanted.rank] = 0;
  ++child->size;
  communicators_.push_back(
      {.world = child, .key = wanted.rank, .blocks = wanted.blocks, .process = parent->process});
  *out = &communicators_.back();
  return kNcclSuccess;
}

int FakeNccl::number(const Communicator& communicator) {
  const auto& keys = communicator.world->number_of_key;
  return static_cast<int>(std::distance(keys.begin(), keys.find(communicator.key)));
}

std::vector<const FakeGraph*> FakeNccl::graphs_of(const Communicator& communicator) {
  std::vector<const FakeGraph*> graphs;
  for (const auto& [graph, last] : communicator.last) {
    if (graph != nullptr) graphs.push_back(graph);
  }
  return graphs;
}

bool FakeNccl::usable(const Communicator* communicator, const char* call) {
  if (communicator != nullptr && communicator->alive) return true;
  faults_.add(FaultKind::use_after_free, std::string(call) + " on a communicator that is gone");
  return false;
}

int FakeNccl::abort(Communicator* communicator) {
  if (communicator == nullptr || !communicator->alive) {
    faults_.add(FaultKind::double_free, "a communicator");
    return kNcclInvalidUsage;
  }
  communicator->alive = false;
  std::vector<TaskId> waiting;
  for (const auto& [task, operation] : arrived_) {
    if (operation.communicator == communicator) waiting.push_back(task);
  }
  for (const TaskId task : waiting) {
    arrived_.erase(task);
    for (auto& [channel, tasks] : communicator->world->sends) std::erase(tasks, task);
    for (auto& [channel, tasks] : communicator->world->receives) std::erase(tasks, task);
    for (auto& [rank, tasks] : communicator->world->sums) std::erase(tasks, task);
  }
  machine_.release(waiting);
  return kNcclSuccess;
}

int FakeNccl::state(Communicator* communicator, int* error) {
  *error = kNcclSuccess;
  if (!usable(communicator, "ncclCommGetAsyncError")) return kNcclInvalidUsage;
  if (!communicator->world->made(communicator->splits)) {
    *error = kNcclInProgress;
    return kNcclSuccess;
  }
  const std::shared_ptr<Group> pending = communicator->pending;
  if (pending == nullptr) return kNcclSuccess;
  constexpr int kPolls = 2;
  host_.count(communicator->process, &FakeCounts::polls);
  if (++pending->polls < kPolls || !have_come(*pending)) {
    *error = kNcclInProgress;
    return kNcclSuccess;
  }
  launch(*pending);
  return kNcclSuccess;
}

int FakeNccl::add(Operation operation) {
  if (!usable(operation.communicator, "an operation")) return kNcclInvalidUsage;
  const int size = operation.communicator->world->size;
  if (operation.kind != Operation::Kind::all_reduce && (operation.peer < 0 || operation.peer >= size)) {
    faults_.add(FaultKind::bad_call, operation.mark + " names a peer that is not there");
    return kNcclInvalidUsage;
  }
  if (operation.communicator->pending != nullptr) {
    faults_.add(FaultKind::bad_call, operation.mark + " uses a communicator that is still busy");
    return kNcclInvalidUsage;
  }
  OpenGroup& open = open_[std::this_thread::get_id()];
  open.group.operations.push_back(std::move(operation));
  return open.depth == 0 ? group_end() : kNcclSuccess;
}

int FakeNccl::group_end() {
  OpenGroup& open = open_[std::this_thread::get_id()];
  open.depth = std::max(0, open.depth - 1);
  if (open.depth == 0 && std::exchange(open.duplicates, false)) {
    open.opening.clear();
    return kNcclInvalidUsage;
  }
  if (open.depth == 0) this->open(open);
  if (open.depth > 0 || open.group.operations.empty()) return kNcclSuccess;
  const auto group = std::make_shared<Group>(std::exchange(open.group, {}));
  name_members(*group);
  if (mixes(*group) || sends_to_nobody(*group)) return kNcclInvalidUsage;
  come(*group);
  if (group->operations.front().communicator->blocks) {
    waiting_[std::this_thread::get_id()] = group;
    return go_on();
  }
  host_.count(group->operations.front().communicator->process, &FakeCounts::threads);
  for (const Operation& operation : group->operations) operation.communicator->pending = group;
  return kNcclInProgress;
}

/// The kind of connection that the peers, or the members of a sum, need.
std::string FakeNccl::contact_of(const Operation& operation) {
  const int own = number(*operation.communicator);
  switch (operation.kind) {
    case Operation::Kind::send:
      return std::to_string(own) + " to " + std::to_string(operation.peer);
    case Operation::Kind::receive:
      return std::to_string(operation.peer) + " to " + std::to_string(own);
    case Operation::Kind::all_reduce:
      return std::to_string(operation.count) + " of type " + std::to_string(operation.type);
  }
  return "";
}

std::size_t FakeNccl::needed(const Operation& operation) {
  const auto size = static_cast<std::size_t>(operation.communicator->world->size);
  return operation.kind == Operation::Kind::all_reduce ? size : std::min<std::size_t>(size, 2);
}

bool FakeNccl::mixes(const Group& group) {
  const bool blocks = group.operations.front().communicator->blocks;
  const bool same = std::all_of(group.operations.begin(), group.operations.end(),
                                [&](const Operation& one) { return one.communicator->blocks == blocks; });
  if (!same) faults_.add(FaultKind::bad_call, "a group of communicators that block and such that do not");
  return !same;
}

/// "Trying to send to self without a matching recv": both ends of such a message are in one group.
bool FakeNccl::sends_to_nobody(const Group& group) {
  const auto ends = [&](Operation::Kind kind, const Communicator* of) {
    return std::count_if(group.operations.begin(), group.operations.end(), [&](const Operation& one) {
      return one.kind == kind && one.communicator == of && one.peer == number(*of);
    });
  };
  return std::any_of(group.operations.begin(), group.operations.end(), [&](const Operation& one) {
    return ends(Operation::Kind::send, one.communicator) != ends(Operation::Kind::receive, one.communicator);
  });
}

/// Those that are the last ones to come connect, which takes long and waits for the host of each.
void FakeNccl::come(const Group& group) {
  for (const Operation& operation : group.operations) {
    World& world = *operation.communicator->world;
    std::set<int>& here = world.contacts[contact_of(operation)];
    const bool last = here.insert(number(*operation.communicator)).second && here.size() == needed(operation);
    if (last) host_.creating(operation.communicator->process, "a connection of " + world.name);
  }
}

bool FakeNccl::have_come(const Group& group) {
  return std::all_of(group.operations.begin(), group.operations.end(), [](const Operation& one) {
    return one.communicator->world->contacts.at(contact_of(one)).size() >= needed(one);
  });
}

int FakeNccl::go_on() {
  constexpr int kInternalError = 3;
  const auto own = waiting_.find(std::this_thread::get_id());
  const std::shared_ptr<Group> group = own->second;
  const bool over = std::any_of(group->operations.begin(), group->operations.end(),
                                [](const Operation& one) { return !one.communicator->alive; });
  // Inside a step nobody would come to end what never connects; all else about it is held against its user.
  const bool in_step = host_.in_step(group->operations.front().communicator->process);
  if (!over && !have_come(*group) && !in_step) return kNcclInProgress;
  waiting_.erase(own);
  if (over) return kInternalError;
  launch(*group);
  return kNcclSuccess;
}

/// The operations of an instruction are those of its members in order: two for saved activations, and one for
/// every other member. Where there are more or less than that, each may be of any member.
void FakeNccl::name_members(Group& group) const {
  std::map<std::string, std::vector<Operation*>> marked;
  for (Operation& operation : group.operations) marked[operation.mark].push_back(&operation);
  for (const auto& [mark, operations] : marked) {
    const EndActions members = ends_.actions(mark);
    EndActions pieces;
    for (const Action& one : members) pieces.insert(pieces.end(), moves_activations(one) ? 2 : 1, one);
    const bool exact = pieces.size() == operations.size();
    for (std::size_t i = 0; i < operations.size(); ++i)
      operations[i]->actions = exact ? EndActions{pieces[i]} : members;
  }
}

void FakeNccl::launch(Group& group) {
  std::vector<Communicator*> order;
  for (const Operation& operation : group.operations) {
    if (std::find(order.begin(), order.end(), operation.communicator) == order.end()) {
      order.push_back(operation.communicator);
    }
  }
  for (Communicator* const communicator : order) {
    std::vector<Operation> own;
    for (const Operation& operation : group.operations) {
      if (operation.communicator == communicator) own.push_back(operation);
    }
    communicator->pending = nullptr;
    launch(*communicator, own);
  }
}

std::size_t FakeNccl::lane_of(Communicator& communicator, const std::string& channel) {
  const auto [lane, added] = communicator.lanes.try_emplace(channel, 0);
  if (added) lane->second = machine_.make_lane();
  return lane->second;
}

/// A launch starts behind all of its streams, the launch before on its communicator and the start of the one
/// before of its rank, and they go on after it.
void FakeNccl::launch(Communicator& communicator, const std::vector<Operation>& operations) {
  std::vector<FakeStream*> streams;
  for (const Operation& operation : operations) {
    if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end()) {
      streams.push_back(operation.stream);
    }
  }
  host_.count(communicator.process, &FakeCounts::launches);
  FakeGraph* const capture = streams.front()->capture;
  TaskDraft begin{.name = operations.front().mark + " in " + communicator.world->name};
  for (FakeStream* const stream : streams) {
    if (stream != streams.front() && stream->tail) begin.after.push_back(*stream->tail);
  }
  const auto before = communicator.last.find(capture);
  const std::pair rank(communicator.key, capture);
  const bool ordered = host_.orders_launches();
  if (ordered && capture != nullptr)
    faults_.add(FaultKind::bad_capture, begin.name + ": the launch order of communicators");
  if (const auto launched = launched_.find(rank); ordered && launched != launched_.end())
    begin.behind.push_back(launched->second);
  if (before != communicator.last.end()) begin.behind.push_back(before->second);
  const TaskId start = launched_[rank] = machine_.enqueue(*streams.front(), begin);
  if (before != communicator.last.end() && capture == nullptr) {
    machine_.on_finish(start, [this, start, earlier = before->second] {
      if (machine_.knows(start, earlier)) return;
      faults_.add(FaultKind::unordered_use, machine_.name(start) + " runs on another stream than " +
                                                machine_.name(earlier) + ", and nothing orders them");
    });
  }
  std::vector<TaskId> ends;
  std::map<std::string, TaskId> tails;
  for (const Operation& operation : operations) {
    TaskDraft one = draft(operation);
    one.advances_stream = one.queues = false;
    one.after.push_back(start);
    if (before != communicator.last.end()) one.after.push_back(before->second);
    const std::string channel = channel_of(operation);
    one.lane = lane_of(communicator, channel);
    if (const auto tail = tails.find(channel); tail != tails.end()) one.after.push_back(tail->second);
    ends.push_back(tails[channel] = machine_.enqueue(*operation.stream, std::move(one)));
  }
  for (FakeStream* const stream : streams) {
    communicator.last[capture] =
        machine_.enqueue(*stream, {.name = begin.name, .after = ends, .queues = false});
  }
}

TaskDraft FakeNccl::draft(const Operation& operation) {
  TaskDraft made{.name = operation.mark + " in " + operation.communicator->world->name,
                 .kind = TaskKind::operation};
  const std::size_t bytes = operation.bytes();
  if (operation.from != nullptr) made.reads.emplace_back(operation.from, bytes);
  if (operation.to != nullptr) made.writes.emplace_back(operation.to, bytes);
  made.arrive = [this, operation](TaskId task) { arrive(operation, task); };
  return made;
}

void FakeNccl::report_leaks() {
  for (const Communicator& communicator : communicators_) {
    if (communicator.alive) faults_.add(FaultKind::leak, communicator.world->name);
  }
}

}  // namespace ppsim::test

// Where the ends of messages and the members of sums meet.

#include <algorithm>
#include <cstring>

#include "support/fake_gpu/nccl/nccl.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

std::size_t element_bytes(int type) {
  if (type == kNcclUint8) return 1;
  if (type == kNcclBfloat16) return 2;
  return type == kNcclFloat32 ? 4 : 8;
}

template <class T>
void add_elements(std::vector<std::byte>& into, const std::byte* from) {
  for (std::size_t i = 0; i + sizeof(T) <= into.size(); i += sizeof(T)) {
    T a{};
    T b{};
    std::memcpy(&a, into.data() + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = static_cast<T>(a + b);
    std::memcpy(into.data() + i, &a, sizeof a);
  }
}

void add_up(int type, std::vector<std::byte>& into, const std::byte* from) {
  if (type == kNcclUint64) return add_elements<std::uint64_t>(into, from);
  if (type == kNcclFloat64) return add_elements<double>(into, from);
  if (type == kNcclFloat32) return add_elements<float>(into, from);
}

}  // namespace

std::size_t FakeNccl::Operation::bytes() const { return count * element_bytes(type); }

void FakeNccl::arrive(const Operation& operation, TaskId task) {
  if (!operation.communicator->alive) return machine_.release({task});
  arrived_[task] = operation;
  World& world = *operation.communicator->world;
  const int own = number(*operation.communicator);
  switch (operation.kind) {
    case Operation::Kind::send:
      world.sends[{own, operation.peer}].push_back(task);
      return match(world, {own, operation.peer});
    case Operation::Kind::receive:
      world.receives[{operation.peer, own}].push_back(task);
      return match(world, {operation.peer, own});
    case Operation::Kind::all_reduce:
      world.sums[own].push_back(task);
      return sum(world);
  }
}

void FakeNccl::match(World& world, std::pair<int, int> channel) {
  auto& sends = world.sends[channel];
  auto& receives = world.receives[channel];
  if (sends.empty() || receives.empty()) return;
  const TaskId send = sends.front();
  const TaskId receive = receives.front();
  sends.pop_front();
  receives.pop_front();
  const Operation from = arrived_.at(send);
  const Operation to = arrived_.at(receive);
  arrived_.erase(send);
  arrived_.erase(receive);
  check_ends(from, send, to, receive);
  const std::size_t bytes = std::min(from.bytes(), to.bytes());
  machine_.on_finish(receive, [from, to, bytes] { std::copy_n(from.from, bytes, to.to); });
  machine_.meet(receive, transfer_time_, {send});
  machine_.meet(send, transfer_time_, {});
}

void FakeNccl::check_ends(const Operation& send, TaskId send_task, const Operation& receive,
                          TaskId receive_task) {
  const bool same_size = send.count == receive.count && send.type == receive.type;
  if (same_size && Ends::meet(send.actions, receive.actions)) return;
  faults_.add(FaultKind::mismatched_ends,
              end_text(send, send_task) + " meets " + end_text(receive, receive_task));
}

std::string FakeNccl::end_text(const Operation& operation, TaskId task) const {
  std::string text = machine_.name(task);
  if (operation.actions.size() == 1) text = ends_.text(operation.actions) + " of " + text;
  return text + " with " + std::to_string(operation.count) + " elements";
}

void FakeNccl::sum(World& world) {
  if (world.sums.size() < static_cast<std::size_t>(world.size)) return;
  std::vector<TaskId> members;
  for (const auto& [rank, waiting] : world.sums) {
    if (waiting.empty()) return;
    members.push_back(waiting.front());
  }
  for (auto& [rank, waiting] : world.sums) waiting.pop_front();
  const auto operations = std::make_shared<std::vector<Operation>>();
  for (const TaskId member : members) {
    operations->push_back(arrived_.at(member));
    arrived_.erase(member);
    check_ends(operations->front(), members.front(), operations->back(), member);
  }
  // All inputs are read before the first output is written.
  const auto total = std::make_shared<std::vector<std::byte>>();
  for (std::size_t m = 0; m < members.size(); ++m) {
    machine_.on_finish(members[m], [operations, total, own = operations->at(m)] {
      if (total->empty()) {
        const std::size_t bytes = own.bytes();
        total->assign(operations->front().from, operations->front().from + bytes);
        for (std::size_t i = 1; i < operations->size(); ++i) add_up(own.type, *total, operations->at(i).from);
      }
      std::copy(total->begin(), total->end(), own.to);
    });
    machine_.meet(members[m], transfer_time_, members);
  }
}

}  // namespace ppsim::test

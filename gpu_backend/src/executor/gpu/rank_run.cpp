#include "rank_run.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// A named range of the host's time.
class Mark {
 public:
  Mark(const MarkTable& marks, const char* name) : marks_(marks) { marks_.push(name); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() { marks_.pop(); }

 private:
  const MarkTable& marks_;
};

/// The kinds, stages and slices of which something was launched: products of other sizes are other kernels.
/// OPT is told apart by its update, too: one that no microbatch feeds launches nothing.
class Launched {
 public:
  /// Whether the like of each action has been added.
  [[nodiscard]] bool knows(std::span<const Action> actions) const {
    return std::ranges::all_of(actions,
                               [&](const Action& action) { return known_.count(key_of(action)) != 0; });
  }
  void add(std::span<const Action> actions) {
    for (const Action& action : actions) known_.insert(key_of(action));
  }

 private:
  using Key = std::tuple<OpKind, std::int32_t, std::uint16_t, int>;
  static Key key_of(const Action& action) {
    const int update = action.kind == OpKind::optimizer ? action.update() : 0;
    return {action.kind, action.subject, action.slice, update};
  }

  std::set<Key> known_;
};

bool launches_kernels(OpKind kind) {
  if (kind == OpKind::load || is_collective(kind)) return true;
  return is_compute(kind) && kind != OpKind::reshard;
}

}  // namespace

RankRun::RankRun(const RankSetup& setup) : in_(setup), first_(setup.program.first(setup.device.rank())) {
  for (std::size_t q = 0; q < in_.plan.queues.size(); ++q) {
    const bool computes = in_.plan.queues[q] == Program::kComputeQueue;
    streams_.push_back(in_.device.make_stream(computes ? StreamPriority::lowest : StreamPriority::highest));
    joins_.push_back(in_.device.make_event(false));
  }
  fork_ = in_.device.make_event(false);
  started_ = in_.device.make_event(true);
  ended_ = in_.device.make_event(true);
  make_events();
  if (in_.graphs) {
    const std::size_t count = in_.plan.queues.size();
    const auto memory = in_.device.allocate_host(static_cast<Bytes>(count * sizeof(CudaValue)));
    progress_ = {reinterpret_cast<CudaValue*>(memory.data()), count};
  }
  seen_.resize(in_.plan.queues.size());
  unfinished_.reserve(in_.plan.queues.size());
  has_ended_.resize(in_.plan.instructions.size());
  for (const StreamInstruction& instruction : in_.plan.instructions) {
    names_.push_back("PP:" + actions_text(in_.program, instruction.id));
    seen_[queue_number(instruction.queue)].instructions.push_back(instruction.id);
    listed_ += actions_of(instruction);
  }
  transfers_.resize(in_.plan.instructions.size());
  find_transfers();
}

void RankRun::make_events() {
  const auto last = in_.program.last(in_.device.rank());
  events_.resize(as_size(last.value() - first_.value()));
  for (std::size_t n = 0; n < in_.plan.instructions.size(); ++n) {
    const StreamInstruction& instruction = in_.plan.instructions[n];
    InstructionEvents& events = events_[as_size(instruction.id.value() - first_.value())];
    const bool communicates = is_communication(in_.program.actions(instruction.id).front().kind);
    const bool tells = in_.profile || (communicates && !in_.graphs);
    if (in_.profile) events.start = in_.device.make_event(true);
    if (tells) events.end = in_.device.make_event(true);
    if (instruction.awaited && (in_.graphs || !tells)) events.done = in_.device.make_event(false);
    events.number = n;
  }
}

std::size_t RankRun::queue_number(int queue) const {
  const auto& queues = in_.plan.queues;
  return as_size(std::ranges::lower_bound(queues, queue) - queues.begin());
}

GpuStream RankRun::stream(int queue) const { return streams_[queue_number(queue)].get(); }

const RankRun::InstructionEvents& RankRun::events(InstructionId id) const {
  return events_[as_size(id.value() - first_.value())];
}

/// The event that other streams wait for: a node that tells the host something does not order a graph.
CUevent_st* RankRun::completion(InstructionId id) const {
  return events(id).done ? events(id).done.get() : events(id).end.get();
}

void RankRun::warm_up() {
  in_.device.make_current();
  in_.actions.begin_pass(false);
  Launched launched;
  for (std::size_t n = 0; n < in_.plan.instructions.size(); ++n) {
    const InstructionId id = in_.plan.instructions[n].id;
    const auto actions = in_.program.actions(id);
    if (!launches_kernels(actions.front().kind) || launched.knows(actions)) continue;
    if (is_padding(in_.program.pipeline(), actions)) continue;  // launches nothing
    if (warm_up(n)) launched.add(actions);
  }
  in_.device.record(ended_.get(), compute_stream());
}

bool RankRun::warm_up(std::size_t number) {
  const Mark mark(in_.api.marks, names_[number].c_str());
  const InstructionId id = in_.plan.instructions[number].id;
  try {
    in_.actions.clear(compute_stream());
    if (is_collective(in_.program.actions(id).front().kind)) {
      in_.collectives.warm_up(id, compute_stream());
    } else {
      in_.actions.run(id, compute_stream());
    }
    return true;
  } catch (const BackendError& failure) {
    // A missing entry is an error of the step that reaches it, if one does.
    if (failure.error().code != ErrorCode::ill_formed)
      throw error_of(in_.device.rank(), actions_text(in_.program, id), failure);
    return false;
  }
}

void RankRun::prepare(const std::function<void(GpuStream)>& work) {
  try {
    in_.device.make_current();
    work(compute_stream());
    in_.device.record(ended_.get(), compute_stream());
  } catch (const BackendError& failure) {
    throw error_of(in_.device.rank(), "between two steps", failure);
  }
}

bool RankRun::idle() const { return in_.device.complete(ended_.get()); }

void RankRun::begin_pass(bool takes) {
  in_.actions.begin_pass(takes);
  next_ = 0;
  has_ended_.assign(has_ended_.size(), false);
  unfinished_.clear();
  stage_ = Stage::issuing;
}

void RankRun::fork() {
  in_.device.record(fork_.get(), compute_stream());
  for (const StreamHandle& one : streams_) {
    if (one.get() != compute_stream()) in_.device.wait(one.get(), fork_.get());
  }
}

void RankRun::join() {
  for (const std::size_t number : unfinished_) finish(number);
  unfinished_.clear();
  for (std::size_t q = 0; q < streams_.size(); ++q) {
    if (streams_[q].get() == compute_stream()) continue;
    in_.device.record(joins_[q].get(), streams_[q].get());
    in_.device.wait(compute_stream(), joins_[q].get());
  }
}

void RankRun::begin_step(bool takes) {
  const Nanoseconds begin = in_.api.clock.now();
  begin_on_clock();
  // No stream comes to its first event before the compute stream has come to that of the begin.
  for (const StreamHandle& one : streams_) {
    if (!captured() && one.get() != compute_stream()) in_.device.wait(one.get(), started_.get());
  }
  captured() ? begin_graph(takes) : begin_pass(takes);
  host_.issue_ns += in_.api.clock.now() - begin;
}

void RankRun::begin_on_clock() {
  in_.device.make_current();
  in_.device.record(started_.get(), compute_stream());
  origin_ = in_.api.clock.now();
  for (QueueProgress& queue : seen_) queue.complete = 0;
}

std::int64_t RankRun::actions_of(const StreamInstruction& instruction) const {
  return static_cast<std::int64_t>(in_.program.actions(instruction.id).size());
}

bool RankRun::advance() {
  if (stage_ != Stage::issuing) return false;
  const Nanoseconds begin = in_.api.clock.now();
  const bool moved = enqueue_calls();
  if (moved && !capturing_) host_.issue_ns += in_.api.clock.now() - begin;
  return moved;
}

bool RankRun::enqueue_calls() {
  in_.device.make_current();
  bool moved = false;
  for (; next_ < in_.plan.host.size(); ++next_) {
    if (moved && capturing_) return true;  // the other ranks of the process come next
    if (!enqueue(in_.plan.host[next_])) return moved;
    moved = true;
  }
  join();
  if (!capturing_) in_.device.record(ended_.get(), compute_stream());
  stage_ = Stage::issued;
  return true;
}

/// Returns: false where it has to wait for the device or for another rank.
bool RankRun::enqueue(const HostCall& call) {
  if (call.kind == HostCall::Kind::begin) return enqueue_begin(call.number);
  if (call.kind == HostCall::Kind::end) return enqueue_end(call.number);
  return meet(call);
}

bool RankRun::enqueue_begin(std::size_t number) {
  const StreamInstruction& instruction = in_.plan.instructions[number];
  finish_for(instruction);
  if (instruction.host_wait.valid() && complete(instruction.host_wait) != true) return false;
  issue(number);
  if (!capturing_) host_.actions += actions_of(instruction);
  return true;
}

bool RankRun::enqueue_end(std::size_t number) {
  const InstructionId id = in_.plan.instructions[number].id;
  if (!in_.channels.may_end(id)) return false;
  const Mark mark(in_.api.marks, names_[number].c_str());
  try {
    in_.channels.end(id);
    finish(number);
    return true;
  } catch (const BackendError& failure) {
    throw error_of(in_.device.rank(), actions_text(in_.program, id), failure);
  }
}

/// Enqueues this rank's part of an instruction whose other ends are on other ranks.
bool RankRun::meet(const HostCall& call) {
  const bool moves = call.kind == HostCall::Kind::move;
  if (!(moves ? in_.channels.may_move(call.number) : in_.channels.may_sum(call.number))) return false;
  const Mark mark(in_.api.marks, names_[events(call.on).number].c_str());
  try {
    moves ? in_.channels.move(call.number) : in_.channels.sum(call.number);
    return true;
  } catch (const BackendError& failure) {
    throw error_of(in_.device.rank(), actions_text(in_.program, call.on), failure);
  }
}

void RankRun::issue(std::size_t number) {
  const StreamInstruction& instruction = in_.plan.instructions[number];
  try {
    begin(number);
    if (instruction.ends_apart) return;
    waits_at_its_end(instruction) ? unfinished_.push_back(number) : finish(number);
  } catch (const BackendError& failure) {
    throw error_of(in_.device.rank(), actions_text(in_.program, instruction.id), failure);
  }
}

void RankRun::begin(std::size_t number) {
  const StreamInstruction& instruction = in_.plan.instructions[number];
  const Mark mark(in_.api.marks, names_[number].c_str());
  const GpuStream lead = stream(instruction.queue);
  for (const InstructionId id : instruction.waits) in_.device.wait(lead, completion(id));
  if (in_.profile) record_timed(events(instruction.id).start.get(), lead);
  if (!instruction.other_queues.empty()) in_.device.record(fork_.get(), lead);
  for (const int queue : instruction.other_queues) in_.device.wait(stream(queue), fork_.get());
  post(number);
}

void RankRun::post(std::size_t number) {
  const StreamInstruction& instruction = in_.plan.instructions[number];
  const OpKind kind = in_.program.actions(instruction.id).front().kind;
  if (!is_communication(kind)) return work(instruction);
  if (is_transfer(kind)) return post_transfers(number);
  in_.channels.post(in_.collectives.begin(instruction.id, stream(instruction.queue)));
}

void RankRun::work(const StreamInstruction& instruction) {
  const Nanoseconds begin = in_.api.clock.now();
  in_.actions.run(instruction.id, stream(instruction.queue));
  if (!capturing_) host_.work_ns += in_.api.clock.now() - begin;
}

/// Errors: throws BackendError for a tensor that the Program lacks.
std::vector<StreamTransfer> RankRun::transfers(const StreamInstruction& instruction) const {
  std::vector<StreamTransfer> ends;
  const auto actions = in_.program.actions(instruction.id);
  for (const Transfer& transfer : in_.actions.transfers(instruction.id)) {
    const int queue = in_.program.queue_of(actions[ends.size()], transfer.channel.communicator);
    ends.push_back({transfer, stream(queue)});
  }
  return ends;
}

void RankRun::find_transfers() {
  for (std::size_t n = 0; n < in_.plan.instructions.size(); ++n) {
    const StreamInstruction& instruction = in_.plan.instructions[n];
    if (!is_transfer(in_.program.actions(instruction.id).front().kind)) continue;
    try {
      transfers_[n] = transfers(instruction);
    } catch (const BackendError&) {
      // A missing entry is an error of the step that reaches it, if one does.
    }
  }
}

void RankRun::post_transfers(std::size_t number) {
  std::vector<StreamTransfer>& ends = transfers_[number];
  if (ends.empty()) ends = transfers(in_.plan.instructions[number]);
  in_.channels.post(in_.device.rank(), ends);
}

/// Whether something on its stream follows what it waits for elsewhere: its other queues, or other ranks.
bool RankRun::waits_at_its_end(const StreamInstruction& instruction) const {
  return !instruction.other_queues.empty() || is_collective(in_.program.actions(instruction.id).front().kind);
}

/// Enqueues the end of an instruction only when something waits for it: with one hardware queue it holds up
/// everything after it.
void RankRun::finish_for(const StreamInstruction& instruction) {
  std::erase_if(unfinished_, [&](std::size_t number) {
    const StreamInstruction& one = in_.plan.instructions[number];
    const bool awaited = one.queue == instruction.queue || one.id == instruction.host_wait ||
                         std::ranges::find(instruction.waits, one.id) != instruction.waits.end();
    if (awaited) finish(number);
    return awaited;
  });
}

void RankRun::finish(std::size_t number) {
  const StreamInstruction& instruction = in_.plan.instructions[number];
  has_ended_[number] = true;
  const GpuStream lead = stream(instruction.queue);
  for (const int queue : instruction.other_queues) {
    const GpuStream other = stream(queue);
    CUevent_st* const joined = joins_[queue_number(queue)].get();
    in_.device.record(joined, other);
    in_.device.wait(lead, joined);
  }
  if (is_collective(in_.program.actions(instruction.id).front().kind))
    in_.collectives.end(instruction.id, lead);
  // An instruction that waits for it starts after its end is on the clock.
  if (events(instruction.id).end) record_timed(events(instruction.id).end.get(), lead);
  if (events(instruction.id).done) in_.device.record(events(instruction.id).done.get(), lead);
  if (capturing_ && is_communication(in_.program.actions(instruction.id).front().kind)) {
    const CudaAddress cell = address_of(&progress_[queue_number(instruction.queue)]);
    in_.device.check(in_.device.cuda().stream_write_value(lead, cell, number + 1, 0), "noting what is over");
  }
}

/// In a graph an event tells the host something only as a separate node.
void RankRun::record_timed(CUevent_st* event, GpuStream stream) const {
  in_.device.record(event, stream, capturing_ ? kCudaEventRecordExternal : kCudaEventDefault);
}

}  // namespace ppsim::gpu_backend

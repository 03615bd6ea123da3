#include "mpi_transport.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "executor/payload.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

// For processes that are known to come, and at the end of a run, which may have failed: a second
// longer each than process 0 waits for what they have to say.
constexpr auto kTimeout = std::chrono::seconds(10);
constexpr auto kFarewell = std::chrono::seconds(5);

std::string end_text(const Program& program, InstructionId id) {
  return "rank " + std::to_string(program.rank_of(id).value()) + ": " + actions_text(program, id);
}

void rest(Backoff& backoff) {
  const auto pause = backoff.next();
  pause.count() == 0 ? std::this_thread::yield() : std::this_thread::sleep_for(pause);
}

}  // namespace

MpiTransport::MpiTransport(MpiWorld& world, const Bootstrap& bootstrap, const RunInput& input,
                           CompletionSink& sink)
    : world_(world), bootstrap_(bootstrap), input_(input), program_(input.program), sink_(sink) {
  number_channels();
}

MpiTransport::~MpiTransport() {
  stop_progress();
  try {
    if (step_ < 0 || (bootstrap_.all_here() && clear_away(kFarewell))) return;
  } catch (const BackendError&) {
    // MPI itself has failed and must not be called again.
  }
  world_.leave_in_disorder();
}

/// Gives a tag to every channel and to both ways of every member of a collective, the same on all processes.
void MpiTransport::number_channels() {
  groups_.resize(program_.communicators().size());
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i) {
    const InstructionId id(i);
    const RankId rank = program_.rank_of(id);
    if (is_transfer(program_.actions(id).front().kind)) {
      for (const Transfer& end : transfer_ends(program_, {rank, id})) {
        ChannelState& channel = channels_[end.channel];
        if (end.direction == Direction::send) channel.senders.push_back(id);
      }
    } else if (is_communication(program_.actions(id).front().kind)) {
      groups_[program_.communicators_of(id).front().index()][rank] = {};
    }
  }
  int tag = 0;
  for (auto& [channel, state] : channels_) state.tag = tag++;
  for (std::size_t c = 0; c < groups_.size(); ++c) {
    if (groups_[c].empty()) continue;
    for (const RankId member : program_.communicator(CommunicatorId(static_cast<std::int32_t>(c))).members) {
      groups_[c][member].up_tag = tag++;
      groups_[c][member].down_tag = tag++;
    }
  }
  if (tag > world_.largest_tag()) {
    throw BackendError(ErrorCode::bad_argument, "the program has " + std::to_string(tag) +
                                                    " channels, this MPI " +
                                                    std::to_string(world_.largest_tag()) + " tags");
  }
}

int MpiTransport::process_of(RankId rank) const {
  return rank.value() / (input_.here.end - input_.here.begin);
}

void MpiTransport::begin_step() {
  stop_progress();
  if (step_ >= 0 && !clear_away(kTimeout))
    throw BackendError(ErrorCode::io, "the other processes did not finish the step before");
  ++step_;
  posted_.clear();
  called_.clear();
  for (auto& [channel, state] : channels_) {
    state.sends.clear();
    state.receives.clear();
    state.unreceived = 0;
    state.received = state.sent = 0;
  }
  for (Group& group : groups_) {
    for (auto& [rank, member] : group) {
      member.calls.clear();
      member.given.clear();
    }
  }
  if (step_ == 0) open_channels();
  stopping_ = false;
  thread_ = std::thread([this] { progress(); });
}

/// An empty message on each: MPI connects two processes when they first exchange something.
void MpiTransport::open_channels() {
  std::vector<MPI_Request> requests;
  for (const auto& [channel, state] : channels_) {
    if (here(channel.source)) {
      MPI_Issend(nullptr, 0, MPI_BYTE, process_of(channel.destination), state.tag, world_.messages(step_),
                 &requests.emplace_back(MPI_REQUEST_NULL));
    }
    if (here(channel.destination)) {
      MPI_Irecv(nullptr, 0, MPI_BYTE, process_of(channel.source), state.tag, world_.messages(step_),
                &requests.emplace_back(MPI_REQUEST_NULL));
    }
  }
  const auto limit = std::chrono::steady_clock::now() + kTimeout;
  Backoff backoff;
  for (int all = 0; all == 0; rest(backoff)) {
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (all == 0 && (!bootstrap_.all_here() || std::chrono::steady_clock::now() > limit)) {
      world_.leave_in_disorder();
      throw BackendError(ErrorCode::io, "not all channels of the program could be opened");
    }
  }
}

/// Receives and drops messages in flight until no process has any. A send is complete when it
/// was received, so a process that waits in the barrier has none left, and all are in it when it ends
/// (Hoefler, Siebert and Lumsdaine, "Scalable Communication Protocols for Dynamic Sparse Data Exchange",
/// PPoPP 2010).
bool MpiTransport::clear_away(std::chrono::seconds timeout) {
  const auto limit = std::chrono::steady_clock::now() + timeout;
  MPI_Request barrier = MPI_REQUEST_NULL;
  bool waiting = false;
  Backoff backoff;
  for (int over = 0; over == 0; rest(backoff)) {
    while (const auto arrival = arrival_from({MPI_ANY_SOURCE, MPI_ANY_TAG, world_.messages(step_)}))
      static_cast<void>(take(*arrival));
    pending_.progress(false);
    if (!waiting && pending_.empty()) {
      check_mpi(MPI_Ibarrier(world_.barriers(), &barrier), "MPI_Ibarrier");
      waiting = true;
    }
    if (waiting) check_mpi(MPI_Test(&barrier, &over, MPI_STATUS_IGNORE), "MPI_Test");
    if (over == 0 && (!bootstrap_.all_here() || std::chrono::steady_clock::now() > limit)) return false;
  }
  return true;
}

void MpiTransport::stop_progress() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void MpiTransport::post(std::span<const Transfer> group) {
  const std::lock_guard lock(mutex_);
  append_all(posted_, group);
  wake_.notify_one();
}

void MpiTransport::post(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  called_.push_back(call);
  wake_.notify_one();
}

void MpiTransport::progress() {
  try {
    for (Backoff backoff;;) {
      bool moved = take_posted();
      for (auto& [channel, state] : channels_) {
        moved |= start_sends(channel, state);
        moved |= match_receive(channel, state);
      }
      moved |= pending_.progress();  // first: messages before a collective are reported before it
      for (Group& group : groups_) moved |= progress_group(group);
      if (moved) backoff.reset();
      const bool awaited = anything_awaited();
      std::unique_lock lock(mutex_);
      const auto woken = [&] { return stopping_ || !posted_.empty() || !called_.empty(); };
      if (stopping_) return;
      if (moved) continue;  // a receipt that has come in lets the next message of its channel go out
      if (!awaited) {
        wake_.wait(lock, woken);
      } else {
        const auto pause = backoff.next();
        if (pause.count() > 0) wake_.wait_for(lock, pause, woken);
        lock.unlock();
        if (pause.count() == 0) std::this_thread::yield();
      }
    }
  } catch (...) {
    sink_.fail(std::current_exception());
  }
}

bool MpiTransport::take_posted() {
  std::vector<Transfer> posted;
  std::vector<CollectiveCall> called;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    called.swap(called_);
  }
  for (const Transfer& end : posted) {
    ChannelState& channel = channels_.at(end.channel);
    (end.direction == Direction::send ? channel.sends : channel.receives).push_back(end);
  }
  for (const CollectiveCall& call : called) join(call);
  return !posted.empty() || !called.empty();
}

void MpiTransport::complete(InstructionId id) { sink_.complete(std::array{id}); }

bool MpiTransport::anything_awaited() const {
  if (!pending_.empty()) return true;
  for (const auto& [channel, state] : channels_) {
    if (!state.receives.empty()) return true;
  }
  return std::ranges::any_of(groups_, [](const Group& group) {
    return std::ranges::any_of(group, [](const auto& member) { return !member.second.calls.empty(); });
  });
}

bool MpiTransport::start_sends(const Channel& channel, ChannelState& state) {
  const std::optional<int> credits = input_.options.capabilities.credits;
  bool moved = false;
  while (!state.sends.empty() && (!credits || state.unreceived < *credits)) {
    const Transfer send = state.sends.front();
    state.sends.pop_front();
    const MpiAddress to{process_of(channel.destination), state.tag, world_.messages(step_)};
    const MessageHeader header{send.instruction.value(), state.sent++};
    if (credits) {
      ++state.unreceived;
      pending_.send(to, header, pack(send.payload), [&state] { --state.unreceived; });
      complete(send.instruction);
    } else {
      pending_.send(to, header, send.payload, [this, id = send.instruction] { complete(id); });
    }
    moved = true;
  }
  return moved;
}

bool MpiTransport::match_receive(const Channel& channel, ChannelState& state) {
  if (state.receives.empty()) return false;
  const auto arrival = arrival_from({process_of(channel.source), state.tag, world_.messages(step_)});
  if (!arrival) return false;
  receive(state, *arrival);
  return true;
}

void MpiTransport::receive(ChannelState& state, const MpiArrival& arrival) {
  const Transfer end = state.receives.front();
  state.receives.pop_front();
  const std::size_t expected = sizeof(MessageHeader) + size_of(end.payload);
  if (arrival.bytes == expected) {
    const std::uint32_t number = state.received++;
    return pending_.receive(arrival, end.payload, [this, end, number, &state](const MessageHeader& header) {
      check_header(end.instruction, header, number, state.senders);
      complete(end.instruction);
    });
  }
  const std::vector<std::byte> bytes = take(arrival);
  MessageHeader header;
  std::memcpy(&header, bytes.data(), std::min(sizeof header, bytes.size()));
  throw BackendError(ErrorCode::bad_argument, end_text(program_, InstructionId(header.instruction)) +
                                                  " sends " + std::to_string(arrival.bytes - sizeof header) +
                                                  " bytes, " + end_text(program_, end.instruction) +
                                                  " expects " + std::to_string(size_of(end.payload)));
}

void MpiTransport::check_header(InstructionId receive, const MessageHeader& header, std::uint32_t number,
                                const std::vector<InstructionId>& senders) const {
  if (header.number == number && number < senders.size() && senders[number].value() == header.instruction)
    return;
  throw BackendError(ErrorCode::ill_formed, end_text(program_, receive) +
                                                " meets another message than that of its place on the "
                                                "channel, from " +
                                                end_text(program_, InstructionId(header.instruction)));
}

void MpiTransport::join(const CollectiveCall& call) {
  Group& group = groups_[call.communicator.index()];
  MemberState& member = group.at(call.rank);
  member.calls.push_back(call);
  const RankId lowest = group.begin()->first;
  std::vector<std::byte> bytes = pack({call.statistics, call.summand});
  if (call.rank == lowest) {
    member.given.push_back(std::move(bytes));
  } else {
    pending_.send_bytes({process_of(lowest), member.up_tag, world_.messages(step_)}, std::move(bytes));
  }
}

bool MpiTransport::progress_group(Group& group) {
  if (group.empty()) return false;
  bool moved = false;
  if (!group.begin()->second.calls.empty()) moved = gather_contributions(group);
  for (auto& [rank, member] : group) {
    if (rank != group.begin()->first && !member.calls.empty()) moved |= take_result(group, member);
  }
  return moved;
}

/// At the lowest member, which has called: takes what the others give, and ends the match when all have.
bool MpiTransport::gather_contributions(Group& group) {
  bool moved = false;
  bool all = true;
  for (auto& [rank, member] : group) {
    if (member.given.empty()) {
      const auto arrival = arrival_from({process_of(rank), member.up_tag, world_.messages(step_)});
      if (arrival) member.given.push_back(take(*arrival));
      moved |= arrival.has_value();
    }
    all = all && !member.given.empty();
  }
  if (all) meet(group);
  return moved || all;
}

/// The call of another rank, as the lowest member sees it: with the bytes that it gave, in the same
/// pieces as its own.
CollectiveCall MpiTransport::call_of(RankId rank, const CollectiveCall& own, std::span<std::byte> given) {
  CollectiveCall call = own;
  call.rank = rank;
  check_sizes(own.statistics.size(), std::min(given.size(), own.statistics.size()));
  call.statistics = given.first(own.statistics.size());
  call.summand = given.subspan(own.statistics.size());
  call.result = own.gets_sum(rank) ? call.summand : std::span<std::byte>{};
  call.total = {};  // its own rank adds to it
  return call;
}

void MpiTransport::meet(Group& group) {
  MemberState& lowest = group.begin()->second;
  const CollectiveCall own = lowest.calls.front();
  lowest.calls.pop_front();
  std::vector<std::vector<std::byte>> given;
  std::vector<CollectiveCall> match;
  for (auto& [rank, member] : group) {
    given.push_back(std::move(member.given.front()));
    member.given.pop_front();
    match.push_back(&member == &lowest ? own : call_of(rank, own, given.back()));
  }
  reduce(program_, input_.model, match);
  auto result = given.begin();
  for (auto& [rank, member] : group) {
    if (&member != &lowest) {
      if (!own.gets_sum(rank)) result->resize(own.statistics.size());
      pending_.send_bytes({process_of(rank), member.down_tag, world_.messages(step_)}, std::move(*result));
    }
    ++result;
  }
  complete(own.instruction);
}

bool MpiTransport::take_result(Group& group, MemberState& member) {
  const int lowest = process_of(group.begin()->first);
  const auto arrival = arrival_from({lowest, member.down_tag, world_.messages(step_)});
  if (!arrival) return false;
  const CollectiveCall call = member.calls.front();
  member.calls.pop_front();
  const std::vector<std::byte> bytes = take(*arrival);
  const std::size_t of_sum = call.gets_sum(call.rank) ? call.summand.size() : 0;
  check_sizes(call.statistics.size() + of_sum, bytes.size());
  std::copy_n(bytes.begin(), call.statistics.size(), call.statistics.begin());
  if (of_sum > 0) put_sum(std::span(bytes).subspan(call.statistics.size()), call.result);
  add_to_total(input_.model, call);
  complete(call.instruction);
  return true;
}

}  // namespace ppsim::gpu_backend

#include "support/gpu_probe/nccl_answers.hpp"

#include <algorithm>
#include <functional>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::test {
namespace {

constexpr Nanoseconds kNcclTimeout = 15'000'000'000;
constexpr Bytes kMessage = 1 << 20;

/// The outcome of a wait.
struct Hang {};

/// A communicator on device 0 that aborts what is left of it.
class Communicator {
 public:
  explicit Communicator(const ProbeMachine& machine) : nccl_(machine.api.nccl), clock_(machine.api.clock) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    if (communicator_ != nullptr) nccl_.communicator_abort(communicator_);
  }

  void begin(const NcclUniqueId& id, int size, int rank) {
    NcclConfig config;
    config.blocking = 0;
    config.max_ctas = 4;
    check(nccl_.communicator_init(&communicator_, size, id, rank, &config));
  }
  /// Waits until the last call is through.
  void settle() {
    const Nanoseconds give_up = clock_.now() + kNcclTimeout;
    for (int state = kNcclInProgress; state == kNcclInProgress;) {
      check(nccl_.async_error(communicator_, &state));
      check(state);
      if (clock_.now() >= give_up) throw Hang();
      clock_.pause();
    }
  }
  void check(int result) const {
    if (result == kNcclSuccess || result == kNcclInProgress) return;
    const char* const text = nccl_.error_text(result);
    const char* const last = nccl_.last_error ? nccl_.last_error(communicator_) : nullptr;
    throw BackendError(ErrorCode::io, std::string(text == nullptr ? "an error without a text" : text) +
                                          (last == nullptr || *last == '\0' ? "" : std::string(": ") + last));
  }
  void send(std::span<std::byte> from, int peer, GpuStream stream) {
    check(nccl_.send(from.data(), from.size(), kNcclUint8, peer, communicator_, stream));
  }
  void receive(std::span<std::byte> to, int peer, GpuStream stream) {
    check(nccl_.receive(to.data(), to.size(), kNcclUint8, peer, communicator_, stream));
  }

 private:
  const NcclTable& nccl_;
  const HostClock& clock_;
  ncclComm* communicator_ = nullptr;
};

template <class Question>
NcclAnswer answer(const Question& question) {
  try {
    question();
    return "completes";
  } catch (const Hang&) {
    return "hangs";
  } catch (const BackendError& failure) {
    return failure.error().message;
  }
}

NcclUniqueId new_id(const NcclTable& nccl) {
  NcclUniqueId id;
  check_nccl(nccl, nccl.unique_id(&id), "a new communicator");
  return id;
}

/// A message that is there, and room for one.
struct Message {
  explicit Message(ProbeStream& stream)
      : from(stream.device().allocate(kMessage, "a message")),
        to(stream.device().allocate(kMessage, "a message")) {}
  std::span<std::byte> from, to;
};

void check_arrived(ProbeStream& stream, const Message& message, std::byte expected) {
  const auto host = stream.device().allocate_host(kMessage);
  stream.enqueue([&](GpuStream on) { stream.device().copy(on, host, message.to); });
  stream.finish();
  const auto right = std::count(host.begin(), host.end(), expected);
  if (right != kMessage) throw BackendError(ErrorCode::io, "the message has other bytes than were sent");
}

void finish(const ProbeStream& stream) {
  if (!stream.finishes_within(kNcclTimeout)) throw Hang();
}

/// A device that sends a message and receives one.
struct Exchange {
  explicit Exchange(const ProbeMachine& machine)
      : device(machine.api.cuda, 0, 1), stream(machine, device, 0), message(stream), communicator(machine) {}

  /// `transfer` enqueues the message, of bytes `sent`, and the receipt of one of bytes `expected`.
  void run(std::byte sent, std::byte expected, const std::function<void(GpuStream)>& transfer) {
    // Before a transfer, which may be refused: then the memory is freed at once.
    static_cast<void>(stream.time_of([&](GpuStream on) { stream.device().fill(on, message.from, sent); }));
    stream.enqueue([&](GpuStream on) {
      transfer(on);
      communicator.settle();
    });
    finish(stream);
    check_arrived(stream, message, expected);
  }

  GpuDevice device;
  ProbeStream stream;
  Message message;
  Communicator communicator;
};

}  // namespace

NcclAnswer send_to_itself(const ProbeMachine& machine, bool grouped) {
  const NcclTable& nccl = machine.api.nccl;
  Exchange exchange(machine);
  Communicator& alone = exchange.communicator;
  return answer([&] {
    alone.begin(new_id(nccl), 1, 0);
    alone.settle();
    exchange.run(std::byte{7}, std::byte{7}, [&](GpuStream on) {
      if (grouped) alone.check(nccl.group_start());
      alone.send(exchange.message.from, 0, on);
      if (!grouped) alone.settle();
      alone.receive(exchange.message.to, 0, on);
      if (grouped) alone.check(nccl.group_end());
    });
  });
}

NcclAnswer two_ranks_on_a_device(const ProbeMachine& machine) {
  const NcclTable& nccl = machine.api.nccl;
  const GpuDevice device(machine.api.cuda, 0, 1);
  device.make_current();
  Communicator first(machine);
  Communicator second(machine);
  return answer([&] {
    const NcclUniqueId id = new_id(nccl);
    first.check(nccl.group_start());
    first.begin(id, 2, 0);
    second.begin(id, 2, 1);
    first.check(nccl.group_end());
    first.settle();
    second.settle();
  });
}

NcclAnswer one_of_two_processes(const ProbeMachine& machine, int rank) {
  const NcclTable& nccl = machine.api.nccl;
  Exchange exchange(machine);
  Communicator& both = exchange.communicator;
  return answer([&] {
    both.begin(new_id(nccl), 2, rank);
    both.settle();
    exchange.run(static_cast<std::byte>(rank + 1), static_cast<std::byte>(2 - rank), [&](GpuStream on) {
      both.check(nccl.group_start());
      both.send(exchange.message.from, 1 - rank, on);
      both.receive(exchange.message.to, 1 - rank, on);
      both.check(nccl.group_end());
    });
  });
}

}  // namespace ppsim::test

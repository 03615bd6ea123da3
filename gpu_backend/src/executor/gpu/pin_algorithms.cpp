#include "pin_algorithms.hpp"

#include <thread>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "process_group/bytes.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string bytes_of(const Algorithms& algorithms) {
  ByteWriter writer;
  writer.put_text(algorithms.device).put_text(algorithms.library).put(algorithms.products.size());
  for (const PinnedAlgorithm& one : algorithms.products) {
    writer.put_text(one.product)
        .put(one.multiprocessors)
        .put_text(one.algorithm)
        .put(one.ns)
        .put(one.first_ns);
  }
  return writer.take();
}

Algorithms algorithms_of(std::string_view bytes) {
  ByteReader reader(bytes);
  Algorithms result;
  result.device = reader.get_text();
  result.library = reader.get_text();
  result.products.resize(reader.get<std::size_t>());
  for (PinnedAlgorithm& one : result.products) {
    one.product = reader.get_text();
    one.multiprocessors = reader.get<int>();
    one.algorithm = reader.get_text();
    one.ns = reader.get<Nanoseconds>();
    one.first_ns = reader.get<Nanoseconds>();
  }
  return result;
}

/// Times the work of a rank on a stream of its own.
class Timing {
 public:
  Timing(const PinningSetup& setup, const RankDevice& device)
      : setup_(setup),
        device_(device),
        stream_(device.make_stream(StreamPriority::lowest)),
        begin_(device.make_event(true)),
        end_(device.make_event(true)) {}

  [[nodiscard]] Nanoseconds time_of(const std::function<void(GpuStream)>& work) const {
    device_.record(begin_.get(), stream_.get());
    work(stream_.get());
    device_.record(end_.get(), stream_.get());
    const HostClock& clock = setup_.api.clock;
    const Nanoseconds give_up = clock.now() + setup_.time_limit;
    while (!device_.complete(end_.get())) {
      if (clock.now() >= give_up) throw BackendError(ErrorCode::io, "a product that is timed does not end");
      setup_.peers.throw_if_stopped();
      clock.pause();
    }
    return device_.between(begin_.get(), end_.get());
  }

 private:
  const PinningSetup& setup_;
  const RankDevice& device_;
  StreamHandle stream_;
  EventHandle begin_, end_;
};

/// Calls `work` for a rank, whose context is current then.
template <class Work>
void of_rank(const RankDevice& device, const char* what, const Work& work) {
  device.make_current();
  try {
    work();
  } catch (const BackendError& failure) {
    throw error_of(device.rank(), what, failure);
  }
}

}  // namespace

void pin_algorithms(const PinningSetup& setup, Algorithms& known) {
  if (setup.peers.leads()) {
    const std::jthread at_work = setup.peers.alone() ? std::jthread() : setup.processes->at_work();
    const RankDevice& device = setup.ranks[0];
    of_rank(device, "timing algorithms", [&] {
      const Timing timing(setup, device);
      std::size_t told = known.products.size();
      const auto tell = [&] {
        if (known.products.size() > std::exchange(told, known.products.size()) && setup.added) setup.added();
      };
      const auto time = [&](const std::function<void(GpuStream)>& work) {
        tell();  // a product that was timed before this one
        return timing.time_of(work);
      };
      setup.stages.front()->time_algorithms(time, known);
      tell();
    });
  }
  if (!setup.peers.alone()) known = algorithms_of(setup.peers.from_leader(bytes_of(known)));
  for (std::size_t r = 0; r < setup.ranks.size(); ++r) {
    of_rank(setup.ranks[r], "taking the pinned algorithms", [&] { setup.stages[r]->take_algorithms(known); });
  }
}

}  // namespace ppsim::gpu_backend

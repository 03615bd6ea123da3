#include <ostream>
#include <utility>

#include "perfetto.pb.h"
#include "ppsim/simulator/writers/perfetto.hpp"
#include "trace_events.hpp"

namespace ppsim::simulator {
namespace {

constexpr std::uint32_t kSequence = 1;  // one writer, so one sequence of packets

/// Numbers of tracks: three kinds of them, each with room for 2^32 of a process or (process, queue).
std::uint64_t process_track(std::uint64_t process) { return (std::uint64_t{1} << 32) + process; }
std::uint64_t memory_track(std::uint64_t process) { return (std::uint64_t{2} << 32) + process; }
std::uint64_t queue_track(std::uint64_t process, int queue) {
  return ((std::uint64_t{3} + process) << 32) + static_cast<std::uint64_t>(queue);
}

class PerfettoWriter {
 public:
  PerfettoWriter(std::ostream& out, const TimedRun& run, TracePlace place)
      : out_(out), run_(run), place_(std::move(place)), events_(trace_events(run)) {}

  void write() {
    for (const RankId rank : run_.program.pipeline().rank_ids()) describe_rank(rank);
    for (const TraceQueue& queue : events_.queues) describe_queue(queue);
    for (const TraceSlice& slice : events_.slices) write_slice(slice);
    for (std::size_t i = 0; i < events_.flows.size(); ++i) write_flow(i);
    for (const RankId r : run_.program.pipeline().rank_ids()) write_memory(r);
  }

 private:
  [[nodiscard]] std::uint64_t process_of(RankId rank) const {
    return static_cast<std::uint64_t>(place_.process(rank));
  }

  void emit(const perfetto::TracePacket& packet) {
    // Serialised messages with one packet each, one after another, are one message with all packets.
    perfetto::Trace trace;
    *trace.add_packet() = packet;
    out_ << trace.SerializeAsString();
  }

  void describe(const perfetto::TrackDescriptor& descriptor) {
    perfetto::TracePacket packet;
    packet.set_trusted_packet_sequence_id(kSequence);
    *packet.mutable_track_descriptor() = descriptor;
    emit(packet);
  }

  void describe_rank(RankId rank) {
    perfetto::TrackDescriptor process;
    process.set_uuid(process_track(process_of(rank)));
    process.mutable_process()->set_pid(place_.process(rank) + 1);
    process.mutable_process()->set_process_name(place_.process_name(rank));
    describe(process);
    if (events_.memory[rank].peak_bytes == 0) return;
    perfetto::TrackDescriptor memory;
    memory.set_uuid(memory_track(process_of(rank)));
    memory.set_parent_uuid(process_track(process_of(rank)));
    memory.set_name("memory");
    memory.mutable_counter()->set_unit(perfetto::CounterDescriptor::UNIT_SIZE_BYTES);
    describe(memory);
  }

  void describe_queue(const TraceQueue& queue) {
    perfetto::TrackDescriptor track;
    track.set_uuid(queue_track(process_of(queue.rank), queue.queue));
    track.set_parent_uuid(process_track(process_of(queue.rank)));
    track.set_name(run_.program.queue_name(queue.queue));
    describe(track);
  }

  void emit_event(Nanoseconds time, const perfetto::TrackEvent& event) {
    perfetto::TracePacket packet;
    packet.set_timestamp(static_cast<std::uint64_t>(time));
    packet.set_trusted_packet_sequence_id(kSequence);
    *packet.mutable_track_event() = event;
    emit(packet);
  }

  [[nodiscard]] perfetto::TrackEvent event_of(perfetto::TrackEvent::Type type,
                                              const TraceSlice& slice) const {
    perfetto::TrackEvent event;
    event.set_type(type);
    event.set_track_uuid(queue_track(process_of(slice.rank), slice.queue));
    return event;
  }

  void write_slice(const TraceSlice& slice) {
    perfetto::TrackEvent begin = event_of(perfetto::TrackEvent::TYPE_SLICE_BEGIN, slice);
    begin.set_name(slice_name(run_.program, slice.instruction));
    emit_event(slice.start, begin);
    emit_event(slice.end, event_of(perfetto::TrackEvent::TYPE_SLICE_END, slice));
  }

  void write_flow(std::size_t index) {
    const TraceFlow& flow = events_.flows[index];
    perfetto::TrackEvent leaves = event_of(perfetto::TrackEvent::TYPE_INSTANT, events_.slices[flow.from]);
    leaves.set_name("sent");
    leaves.add_flow_ids(place_.flow(index) + 1);
    emit_event(flow.leaves, leaves);
    perfetto::TrackEvent arrives = event_of(perfetto::TrackEvent::TYPE_INSTANT, events_.slices[flow.to]);
    arrives.set_name("received");
    arrives.add_terminating_flow_ids(place_.flow(index) + 1);
    emit_event(flow.arrives, arrives);
  }

  void write_memory(RankId rank) {
    if (events_.memory[rank].peak_bytes == 0) return;
    for (const MemoryPoint& point : events_.memory[rank].points) {
      perfetto::TrackEvent event;
      event.set_type(perfetto::TrackEvent::TYPE_COUNTER);
      event.set_track_uuid(memory_track(process_of(rank)));
      event.set_counter_value(point.bytes);
      emit_event(point.at.time, event);
    }
  }

  std::ostream& out_;
  const TimedRun& run_;
  TracePlace place_;
  TraceEvents events_;
};

}  // namespace

void write_perfetto_trace(std::ostream& out, const TimedRun& run) {
  const TracedRun only{"", run};
  write_perfetto_trace(out, {&only, 1});
}

void write_perfetto_trace(std::ostream& out, std::span<const TracedRun> runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    PerfettoWriter(out, runs[i].run, {static_cast<int>(i), static_cast<int>(runs.size()), runs[i].name})
        .write();
  }
}

}  // namespace ppsim::simulator

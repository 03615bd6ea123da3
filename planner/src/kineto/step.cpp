#include <algorithm>
#include <map>

#include "clocks.hpp"
#include "ppsim/core/io/text.hpp"

namespace ppsim::planner {
namespace {

/// When the computation of one instruction was done, on the clock of its rank.
struct Done {
  Nanoseconds start = -1;
  Nanoseconds end = -1;
};

using Cells = std::map<std::string, InstructionId, std::less<>>;

bool is_traced(const Program& program, InstructionId id) {
  if (program.instruction(id).form == InstructionForm::overlap) return true;
  return is_pass(program.actions(id)[0].kind);
}

Cells traced_cells(const Program& program) {
  Cells cells;
  for (const InstructionId id : program.ids()) {
    if (is_traced(program, id)) cells.emplace(actions_text(program, id), id);
  }
  return cells;
}

/// Puts the newest time of each cell of one file into `done`. Returns: the rank that did them.
Expected<RankId> add_newest(const KinetoRanges& file, const Program& program, const Cells& cells,
                            IdVector<InstructionId, Done>& done) {
  RankId rank;
  for (const KinetoRange& range : file.ranges) {
    const auto known = cells.find(range.cell);
    if (known == cells.end()) {
      return make_error(ErrorCode::bad_file, "the trace is of another schedule",
                        {.file = file.file, .found = "PP:" + range.cell, .expected = "what the Program has"});
    }
    const RankId owner = program.rank_of(known->second);
    if (!rank.valid()) rank = owner;
    if (owner != rank) {
      return make_error(ErrorCode::bad_file, "the trace has stages of two ranks",
                        {.file = file.file,
                         .found = "PP:" + range.cell + " of rank " + std::to_string(owner.value()),
                         .expected = "those of rank " + std::to_string(rank.value()) + ", as before it"});
    }
    done[known->second] = {range.start, range.end};
  }
  return rank;
}

/// The file of each rank; each must be there once.
Expected<IdVector<RankId, const KinetoRanges*>> files_of_ranks(std::span<const KinetoRanges> files,
                                                               const Program& program, const Cells& cells,
                                                               IdVector<InstructionId, Done>& done) {
  const auto ranks = as_size(program.pipeline().ranks());
  IdVector<RankId, const KinetoRanges*> of_rank(ranks, nullptr);
  for (const KinetoRanges& file : files) {
    PPSIM_ASSIGN_OR_RETURN(const auto rank, add_newest(file, program, cells, done));
    if (of_rank[rank] != nullptr) {
      return make_error(ErrorCode::bad_file, "two traces are of one rank",
                        {.file = file.file,
                         .found = "stages of rank " + std::to_string(rank.value()),
                         .expected = "one trace a rank; " + of_rank[rank]->file + " has these"});
    }
    of_rank[rank] = &file;
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (of_rank.items()[r] != nullptr) continue;
    return make_error(ErrorCode::bad_file, "no trace of rank " + std::to_string(r),
                      {.found = std::to_string(files.size()) + " traces",
                       .expected = std::to_string(ranks) + ", one a rank"});
  }
  return of_rank;
}

/// Checks that the times of a rank are complete and of one step.
Expected<void> check_rank(const Program& program, RankId rank, const std::string& file,
                          const IdVector<InstructionId, Done>& done) {
  constexpr Nanoseconds kMaxStep = 1'000'000'000'000'000;  // 11 days
  InstructionId before;
  InstructionId first;
  for (const InstructionId id : program.ids_of(rank)) {
    if (!is_traced(program, id)) continue;
    if (!first.valid()) first = id;
    const std::string cell = "PP:" + actions_text(program, id);
    if (done[id].end < 0) {
      return make_error(ErrorCode::bad_file, "the trace has not all of a step",
                        {.file = file, .found = "no " + cell, .expected = "a step of the whole schedule"});
    }
    if (before.valid() && done[id].start < done[before].start) {
      return make_error(
          ErrorCode::bad_file, "the newest ranges of the trace are not one step of this Program",
          {.file = file,
           .found = cell + " before PP:" + actions_text(program, before),
           .expected = "the order of the Program, and no step that the profiler saw in part at its end"});
    }
    if (done[id].end - done[first].start > kMaxStep)
      return make_error(ErrorCode::bad_file, "a step of more than 11 days", {.file = file, .found = cell});
    before = id;
  }
  return {};
}

/// Who makes and who uses the message of a send; an invalid id where the trace does not say.
struct MessageEnds {
  InstructionId producer;
  InstructionId consumer;
};

/// The computation of a stage and microbatch, forward or backward.
class Computation {
 public:
  explicit Computation(const Program& program) {
    for (const InstructionId id : program.ids()) {
      if (!is_traced(program, id)) continue;
      for (const Action& action : program.actions(id)) {
        if (action.kind != OpKind::backward_weight)
          ids_[{action.kind == OpKind::forward, action.subject, action.microbatch}] = id;
      }
    }
  }

  [[nodiscard]] MessageEnds ends_of(const Action& send) const {
    const bool forward = send.kind == OpKind::send_forward;
    return {of(forward, send.subject, send.microbatch), of(forward, send.peer, send.microbatch)};
  }

 private:
  [[nodiscard]] InstructionId of(bool forward, std::int32_t stage, std::int32_t microbatch) const {
    const auto found = ids_.find({forward, stage, microbatch});
    return found == ids_.end() ? InstructionId() : found->second;
  }

  std::map<std::tuple<bool, std::int32_t, std::int32_t>, InstructionId> ids_;
};

/// The messages of a step as bounds on clocks. `from_start`: the action that uses a message starts once the
/// message has arrived.
std::vector<ClockBound> bounds_of(const Program& program, const IdVector<InstructionId, Done>& done,
                                  const IdVector<RankId, bool>& from_start) {
  const Computation computation(program);
  std::vector<ClockBound> bounds;
  for (const Action& action : program.all_actions()) {
    if (action.kind != OpKind::send_forward && action.kind != OpKind::send_backward) continue;
    const MessageEnds ends = computation.ends_of(action);
    if (!ends.producer.valid() || !ends.consumer.valid()) continue;
    const RankId later = program.rank_of(ends.consumer);
    const Done& use = done[ends.consumer];
    const Nanoseconds used = from_start[later] ? use.start : use.end;
    bounds.push_back({program.rank_of(ends.producer), later, used - done[ends.producer].end});
  }
  return bounds;
}

/// True where clocks may be as they are: they were one, or differ by less than messages show.
bool explains(const IdVector<RankId, Nanoseconds>& origins, const std::vector<ClockBound>& bounds) {
  return std::ranges::all_of(bounds, [&](const ClockBound& bound) {
    Nanoseconds difference = 0;
    if (__builtin_sub_overflow(origins[bound.earlier], origins[bound.later], &difference)) return false;
    return difference <= bound.slack;
  });
}

/// Times of each rank from its first one on. Returns: when that was.
IdVector<RankId, Nanoseconds> take_origins(const Program& program, IdVector<InstructionId, Done>& done) {
  IdVector<RankId, Nanoseconds> origins(as_size(program.pipeline().ranks()), 0);
  for (RankId rank(0); rank.index() < origins.size(); rank = next(rank)) {
    bool is_first = true;
    for (const InstructionId id : program.ids_of(rank)) {
      if (done[id].end < 0) continue;
      if (std::exchange(is_first, false)) origins[rank] = done[id].start;
      done[id].start -= origins[rank];
      done[id].end -= origins[rank];
    }
  }
  return origins;
}

TimedTrace trace_of(const Program& program, const IdVector<InstructionId, Done>& done,
                    const IdVector<RankId, Nanoseconds>& shifts) {
  const Nanoseconds first = std::ranges::min(shifts);
  TimedTrace trace{TimedTrace::Spans(program.size(), Span{{-1, 0}, {-1, 0}})};
  for (const InstructionId id : program.ids()) {
    if (done[id].end < 0) continue;
    const Nanoseconds shift = shifts[program.rank_of(id)] - first;
    trace.spans[id] = {{done[id].start + shift, 0}, {done[id].end + shift, 0}};
  }
  return trace;
}

/// How the clocks of ranks are found to stand: the times when each rank began, and offsets from there.
struct Clocks {
  const IdVector<RankId, Nanoseconds>& origins;
  const IdVector<RankId, RankClock>& middles;
  bool shared = false;
};

KinetoStep aligned(const Program& program, const IdVector<InstructionId, Done>& done, const Clocks& clocks) {
  KinetoStep step;
  step.shared_clock = clocks.shared;
  IdVector<RankId, Nanoseconds> shifts;
  for (RankId rank(0); rank.index() < clocks.origins.size(); rank = next(rank)) {
    const Nanoseconds apart = clocks.origins[rank] - clocks.origins[RankId(0)];
    RankClock clock = clocks.middles[rank];
    shifts.push_back(clocks.shared ? apart : clock.offset);
    clock.offset = clocks.shared ? 0 : clock.offset - apart;
    step.clocks.push_back(clock);
  }
  step.trace = trace_of(program, done, shifts);
  return step;
}

}  // namespace

Expected<KinetoStep> step_of_kineto(std::span<const KinetoRanges> files, const Program& program) {
  IdVector<InstructionId, Done> done(program.size());
  PPSIM_ASSIGN_OR_RETURN(const auto of_rank, files_of_ranks(files, program, traced_cells(program), done));
  IdVector<RankId, bool> from_start;
  for (RankId rank(0); rank.index() < of_rank.size(); rank = next(rank)) {
    PPSIM_RETURN_IF_ERROR(check_rank(program, rank, of_rank[rank]->file, done));
    from_start.push_back(of_rank[rank]->on_device);
  }
  const IdVector<RankId, Nanoseconds> origins = take_origins(program, done);
  // Kernels of a gather may begin before the message arrives, so that starts may give too tight bounds.
  for (const IdVector<RankId, bool>& starts : {from_start, IdVector<RankId, bool>(of_rank.size(), false)}) {
    const std::vector<ClockBound> bounds = bounds_of(program, done, starts);
    if (const auto middles = middle_offsets(program.pipeline().ranks(), bounds))
      return aligned(program, done, {origins, *middles, explains(origins, bounds)});
  }
  return make_error(ErrorCode::bad_file, "no clocks explain the messages of these traces",
                    {.found = "messages that are used before they are made, whatever the clocks",
                     .expected = "traces of one step, from the same profiler steps on every rank"});
}

}  // namespace ppsim::planner

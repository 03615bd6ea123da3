#include "ppsim/core/memory/tensors.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_map>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/memory/sized_tensors.hpp"
#include "ppsim/core/memory/tensor_use.hpp"
#include "tensor_touches.hpp"

namespace ppsim {
namespace {

/// The touches [begin, end) of one tensor, all of one key.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t first_writer = -1;
  bool from_start = false;
  bool to_end = false;
};

bool same_key(const TensorTouch& a, const TensorTouch& b) {
  return a.size_class == b.size_class && a.microbatch == b.microbatch;
}

bool writes(Touch touch) { return touch == Touch::write || touch == Touch::save || touch == Touch::renew; }

/// The end of the touches of the tensor whose first is at `begin`.
std::size_t key_end(const std::vector<TensorTouch>& touches, std::size_t begin) {
  std::size_t end = begin;
  while (end < touches.size() && same_key(touches[begin], touches[end])) ++end;
  return end;
}

/// Without the saves of F where an R makes the same tensor: they are not kept.
std::vector<TensorTouch> without_replaced_saves(const std::vector<TensorTouch>& touches) {
  std::vector<TensorTouch> kept;
  kept.reserve(touches.size());
  for (std::size_t begin = 0; begin < touches.size();) {
    const std::span of_tensor(touches.data() + begin, key_end(touches, begin) - begin);
    const bool written = std::ranges::find(of_tensor, Touch::write, &TensorTouch::touch) != of_tensor.end();
    std::ranges::copy_if(of_tensor, std::back_inserter(kept),
                         [&](const TensorTouch& t) { return !written || t.touch != Touch::save; });
    begin += of_tensor.size();
  }
  return kept;
}

/// The end of the copy that begins at `begin`: a copy ends before the next renewal and after a release.
std::size_t copy_end(const std::vector<TensorTouch>& touches, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (i > begin && touches[i].touch == Touch::renew) return i;
    if (touches[i].touch == Touch::release) return i + 1;
  }
  return end;
}

Segment summarise(const std::vector<TensorTouch>& touches, std::size_t begin, std::size_t end) {
  Segment segment{.begin = begin, .end = end};
  bool given = false;
  for (std::size_t i = begin; i < end; ++i) {
    const TensorTouch& t = touches[i];
    if (writes(t.touch) && segment.first_writer < 0) segment.first_writer = t.instruction.value();
    segment.from_start |= t.touch == Touch::exists;
    segment.to_end |= t.touch == Touch::keep;
    given |= t.touch == Touch::read_given;
  }
  segment.from_start |= given && segment.first_writer < 0;
  if (segment.from_start) segment.first_writer = -1;
  return segment;
}

/// Cuts touches, sorted by key, into copies.
std::vector<Segment> copies(const std::vector<TensorTouch>& touches) {
  std::vector<Segment> segments;
  for (std::size_t begin = 0; begin < touches.size();) {
    const std::size_t end = key_end(touches, begin);
    while (begin < end) {
      segments.push_back(summarise(touches, begin, copy_end(touches, begin, end)));
      begin = segments.back().end;
    }
  }
  return segments;
}

struct SizeClassHash {
  std::size_t operator()(const SizeClass& key) const {
    std::uint64_t hash = static_cast<std::uint64_t>(key.kind) << 8U | static_cast<std::uint64_t>(key.op);
    for (const std::int32_t field : {key.subject, key.peer, key.slice})
      hash = (hash ^ static_cast<std::uint32_t>(field)) * 0x9E3779B97F4A7C15ULL;
    return hash ^ (hash >> 32U);
  }
};

/// Something that nobody writes is not a tensor.
bool is_tensor(const Segment& segment) { return segment.from_start || segment.first_writer >= 0; }

/// Appends an instruction unless it is the last one already: an instruction touches a tensor once.
void append(std::vector<InstructionId>& list, std::uint32_t first, InstructionId instruction) {
  if (list.size() == first || list.back() != instruction) list.push_back(instruction);
}

void append(TensorTable& table, RankId rank, const Segment& segment,
            const std::vector<TensorTouch>& touches) {
  constexpr std::size_t kLimit = std::numeric_limits<std::uint32_t>::max();
  PPSIM_CHECK(table.users.size() + (segment.end - segment.begin) < kLimit,
              "more uses of tensors than 32 bits count");
  Tensor tensor{.size_class = touches[segment.begin].size_class,
                .rank = rank,
                .microbatch = touches[segment.begin].microbatch,
                .from_start = segment.from_start,
                .to_end = segment.to_end,
                .first_writer = static_cast<std::uint32_t>(table.writers.size()),
                .first_user = static_cast<std::uint32_t>(table.users.size())};
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const TensorTouch& t = touches[i];
    if (!t.instruction.valid()) continue;
    if (writes(t.touch)) append(table.writers, tensor.first_writer, t.instruction);
    append(table.users, tensor.first_user, t.instruction);
  }
  tensor.writer_count = static_cast<std::uint32_t>(table.writers.size()) - tensor.first_writer;
  tensor.user_count = static_cast<std::uint32_t>(table.users.size()) - tensor.first_user;
  table.tensors.push_back(tensor);
}

void append(std::vector<UnwrittenRead>& reads, const Segment& segment,
            const std::vector<TensorTouch>& touches) {
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const TensorTouch& t = touches[i];
    if (t.instruction.valid()) reads.push_back({t.size_class, t.microbatch, t.instruction});
  }
}

/// Those of some kinds.
TensorUses uses_of(const Program& program, const TensorKinds& kinds) {
  TensorUses uses;
  if (kinds.none()) return uses;
  for (const RankId rank : program.pipeline().rank_ids()) {
    const std::vector<TensorTouch> touches = without_replaced_saves(tensor_touches(program, rank, kinds));
    std::vector<Segment> segments = copies(touches);
    const auto tensors = std::stable_partition(segments.begin(), segments.end(),
                                               [](const Segment& segment) { return !is_tensor(segment); });
    std::for_each(segments.begin(), tensors,
                  [&](const Segment& segment) { append(uses.unwritten, segment, touches); });
    std::stable_sort(tensors, segments.end(),
                     [](const Segment& a, const Segment& b) { return a.first_writer < b.first_writer; });
    std::for_each(tensors, segments.end(),
                  [&](const Segment& segment) { append(uses.table, rank, segment, touches); });
  }
  return uses;
}

}  // namespace

TensorTable tensor_table(const Program& program) { return tensor_uses(program).table; }

TensorUses tensor_uses(const Program& program) { return uses_of(program, TensorKinds().set()); }

std::vector<Bytes> tensor_sizes(const TensorTable& table, const SizeTable& sizes) {
  std::unordered_map<SizeClass, Bytes, SizeClassHash> known;  // looked up, never iterated
  std::vector<Bytes> result;
  result.reserve(table.tensors.size());
  for (const Tensor& tensor : table.tensors) {
    const auto [size, is_new] = known.try_emplace(tensor.size_class, 0);
    if (is_new) size->second = sizes(tensor.size_class);
    result.push_back(size->second);
  }
  return result;
}

SizedTensors sized_tensors(const Program& program, const SizeTable& sizes) {
  TensorKinds kinds;
  for (const auto& [key, bytes] : sizes.entries()) {
    if (bytes > 0) kinds.set(static_cast<std::size_t>(key.kind));
  }
  SizedTensors sized{uses_of(program, kinds).table, {}};
  sized.sizes = tensor_sizes(sized.table, sizes);
  return sized;
}

SizeClass payload_class(const Action& send) {
  PPSIM_CHECK(is_send(send.kind), "only a SEND has a payload");
  if (send.kind == OpKind::send_forward) {
    return {
        .kind = TensorKind::boundary_output, .subject = send.subject, .peer = send.peer, .slice = send.slice};
  }
  if (send.kind == OpKind::send_backward) {
    return {.kind = TensorKind::incoming_gradient,
            .subject = send.peer,
            .peer = send.subject,
            .slice = send.slice};
  }
  return {.kind = TensorKind::lent_activations, .subject = send.subject, .slice = send.slice};
}

}  // namespace ppsim

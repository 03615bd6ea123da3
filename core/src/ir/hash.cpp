#include "ppsim/core/ir/hash.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>

#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

/// Hashes a canonical byte string as it comes about: integers little-endian in 8 bytes, lists behind their
/// length.
class Hasher {
 public:
  /// `tag` names kind and version of what follows, so that values of different types never share a hash.
  explicit Hasher(std::string_view tag) : state_(XXH3_createState()) {
    PPSIM_CHECK(state_ != nullptr, "no memory for a hash state");
    XXH3_128bits_reset(state_.get());
    text(tag);
  }

  Hasher& number(std::int64_t value) { return fields(std::array{value}); }
  /// Several numbers, one after another.
  template <std::size_t kCount>
  Hasher& fields(const std::array<std::int64_t, kCount>& values) {
    if (used_ + sizeof values > buffer_.size()) flush();
    unsigned char* to = buffer_.data() + used_;
    for (const std::int64_t value : values) {
      auto bits = static_cast<std::uint64_t>(value);
      if constexpr (std::endian::native == std::endian::big) bits = __builtin_bswap64(bits);
      std::memcpy(to, &bits, sizeof bits);
      to += sizeof bits;
    }
    used_ += sizeof values;
    return *this;
  }
  Hasher& text(std::string_view value) {
    length(value.size());
    if (used_ + value.size() > buffer_.size()) flush();
    if (value.size() > buffer_.size()) {
      XXH3_128bits_update(state_.get(), value.data(), value.size());
    } else {
      std::ranges::copy(value, buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
      used_ += value.size();
    }
    return *this;
  }
  Hasher& length(std::size_t value) { return number(static_cast<std::int64_t>(value)); }

  template <class Items, class Each>
  Hasher& list(const Items& items, Each each) {
    length(items.size());
    for (const auto& item : items) each(item);
    return *this;
  }
  template <class Ids>
  Hasher& ids(const Ids& items) {
    return list(items, [this](const auto& id) { number(id.value()); });
  }
  template <class Numbers>
  Hasher& numbers(const Numbers& items) {
    return list(items, [this](const auto& item) { number(item); });
  }

  std::string hex() {
    flush();
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (const unsigned char byte : canonical.digest) out += {kDigits[byte >> 4], kDigits[byte & 15]};
    return out;
  }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  void flush() {
    XXH3_128bits_update(state_.get(), buffer_.data(), used_);
    used_ = 0;
  }

  std::unique_ptr<XXH3_state_t, FreeState> state_;
  std::array<unsigned char, 4096> buffer_ = {};
  std::size_t used_ = 0;
};

/// By name, so that a new row in the table of kinds changes no hash.
void add_kind(Hasher& hasher, OpKind kind) { hasher.text(info(kind).text); }

void add_pipeline(Hasher& hasher, const PipelineSpec& spec) {
  hasher.number(spec.ranks).number(spec.stages).number(spec.microbatches).number(spec.slices);
  hasher.ids(spec.placement);
  hasher.list(spec.edges,
              [&](const StageEdge& edge) { hasher.number(edge.from.value()).number(edge.to.value()); });
  hasher.list(spec.routes, [&](const std::vector<StageId>& stages) { hasher.ids(stages); });
  hasher.ids(spec.route);
  hasher.list(spec.blocks, [&](const ParameterBlock& block) { hasher.ids(block.stages); });
  hasher.numbers(spec.update).numbers(spec.version);
  hasher.list(spec.collectives, [&](const Collective& c) { hasher.text(c.name).ids(c.members); });
  // Behind a mark that no length can be, and only where they say something: files without them keep their
  // hash.
  if (std::ranges::any_of(spec.lag, [](int lag) { return lag > 0; })) {
    hasher.number(-1).numbers(spec.lag);
  }
  if (!spec.side_edges.empty()) {
    hasher.number(-3).list(spec.side_edges, [&](const StageEdge& edge) {
      hasher.number(edge.from.value()).number(edge.to.value());
    });
  }
  if (std::ranges::any_of(spec.blocks, &ParameterBlock::reduced_each_microbatch)) {
    hasher.number(-4);
    for (const ParameterBlock& block : spec.blocks) hasher.number(block.reduced_each_microbatch ? 1 : 0);
  }
  if (std::ranges::any_of(spec.collectives, &Collective::per_microbatch)) {
    hasher.number(-2);
    for (const Collective& c : spec.collectives) {
      add_kind(hasher, c.after.kind);
      hasher.ids(c.after.stages);
      add_kind(hasher, c.before.kind);
      hasher.ids(c.before.stages);
      hasher.number(c.gradient_of.value()).number(c.input_of.value());
    }
  }
}

/// `first` is the first instruction of its rank.
void add_instruction(Hasher& hasher, const Program& program, InstructionId id, InstructionId first) {
  const Instruction instruction = program.instruction(id);
  const std::span<const Action> actions = program.actions(id);
  const std::span<const CommunicatorId> communicators = program.communicators_of(id);
  hasher.fields<3>({static_cast<int>(instruction.form), instruction.blocking ? 1 : 0,
                    static_cast<std::int64_t>(actions.size())});
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    add_kind(hasher, action.kind);
    hasher.fields<5>(
        {action.subject, action.microbatch, action.peer, action.slice, communicators[i].value()});
  }
  hasher.list(program.after(id), [&](InstructionId after) { hasher.number(after.value() - first.value()); });
}

void add_limit(Hasher& hasher, const std::optional<int>& limit) { hasher.number(limit.value_or(-1)); }

}  // namespace

std::string program_hash(const Program& program) {
  Hasher hasher("ppsim program 1");
  add_pipeline(hasher, program.pipeline().spec());
  hasher.list(program.communicators(), [&](const Communicator& communicator) {
    hasher.text(communicator.name).ids(communicator.members).number(communicator.queue);
  });
  for (const RankId rank : program.pipeline().rank_ids()) {
    const InstructionId first = program.first(rank);
    hasher.number(program.last(rank).value() - first.value());
    for (const InstructionId id : program.ids_of(rank)) add_instruction(hasher, program, id, first);
  }
  if (program.send_done_delay() > 0) hasher.number(-1).number(program.send_done_delay());
  return hasher.hex();
}

std::string sizes_hash(const SizeTable& sizes) {
  Hasher hasher("ppsim sizes 1");
  hasher.list(sizes.entries(), [&](const auto& entry) {
    const auto& [key, bytes] = entry;
    hasher.text(info(key.kind).name).number(key.subject).number(key.peer).number(key.slice);
    add_kind(hasher, key.op);
    hasher.number(bytes);
  });
  return hasher.hex();
}

std::string costs_hash(const CostTable& costs) {
  Hasher hasher("ppsim costs 1");
  hasher.list(costs.entries(), [&](const auto& entry) {
    const auto& [key, duration] = entry;
    add_kind(hasher, key.kind);
    hasher.number(key.subject).number(key.peer).number(key.slice).number(duration);
  });
  return hasher.hex();
}

std::string capabilities_hash(const TransportCapabilities& capabilities) {
  Hasher hasher("ppsim capabilities 1");
  add_limit(hasher, capabilities.credits);
  add_limit(hasher, capabilities.residency);
  hasher.number(capabilities.issue_blocks ? 1 : 0).number(capabilities.captures_graphs ? 1 : 0);
  // Without eager sends and ordered launches the hash is what it was before there were any.
  if (capabilities.eager) hasher.text("eager");
  if (capabilities.launches.order == LaunchOrder::none) return hasher.hex();
  for (const LaunchChain& chain : {capabilities.launches, capabilities.guaranteed_launches}) {
    hasher.number(static_cast<int>(chain.order)).number(chain.compute ? 1 : 0);
    hasher.number(chain.everything ? 1 : 0);
  }
  return hasher.hex();
}

std::string bytes_hash(std::span<const std::byte> bytes) {
  return Hasher("ppsim bytes 1").text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).hex();
}

}  // namespace ppsim

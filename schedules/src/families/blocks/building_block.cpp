#include "building_block.hpp"

#include "repeated_block.hpp"

namespace ppsim::schedules {
namespace {

/// An action of the block, in the words of a message.
struct Work {
  std::string name;
  int slot = 0;
  int slots = 1;
};

std::string named(const char* kind, std::size_t stage) {
  return std::string(kind) + " of stage " + std::to_string(stage);
}

class BlockRules {
 public:
  explicit BlockRules(const BuildingBlock& block) : block_(block) {}

  std::string run() {
    check_dependencies();
    std::vector<std::vector<Work>> of_rank(as_size(block_.ranks));
    for (std::size_t s = 0; s < block_.stages.size(); ++s) {
      std::vector<Work>& works = of_rank[block_.stages[s].rank.index()];
      works.push_back(forward(s));
      works.push_back(backward(s));
      if (block_.stages[s].weight) works.push_back(weight(s));
    }
    for (std::size_t r = 0; r < of_rank.size(); ++r) check_rank(r, of_rank[r]);
    return text_;
  }

 private:
  [[nodiscard]] Work forward(std::size_t s) const { return {named("F", s), block_.stages[s].forward}; }
  [[nodiscard]] Work backward(std::size_t s) const {
    return {named(block_.splits_backward ? "I" : "B", s), block_.stages[s].backward, block_.backward_slots()};
  }
  [[nodiscard]] Work weight(std::size_t s) const { return {named("W", s), *block_.stages[s].weight}; }

  void check_dependencies() {
    const std::size_t last = block_.stages.size() - 1;
    for (std::size_t s = 0; s <= last; ++s) {
      if (s > 0) check_order(forward(s - 1), forward(s));
      check_order(s < last ? backward(s + 1) : forward(s), backward(s));
      if (block_.stages[s].weight) check_order(backward(s), weight(s));
    }
  }

  void check_order(const Work& first, const Work& then) {
    const int end = first.slot + first.slots;
    if (then.slot >= end) return;
    broken(then.name + " starts in slot " + std::to_string(then.slot) + ", before " + first.name +
           " ends in slot " + std::to_string(end));
  }

  void check_rank(std::size_t rank, const std::vector<Work>& works) {
    std::size_t slots = 0;
    for (const Work& work : works) slots += as_size(work.slots);
    if (block_.splits_backward && !block_.stages.front().weight) slots += works.size() / 2;
    const auto interval = as_size(block_.interval);
    const std::string where = "rank " + std::to_string(rank) + ": ";
    if (slots > interval) {
      broken(where + std::to_string(slots) + " slots of work, more than the interval of " +
             std::to_string(interval));
      return;
    }
    std::vector<const Work*> in_slot(interval);
    for (const Work& work : works) {
      for (int i = 0; i < work.slots; ++i) {
        const int slot = ((work.slot + i) % block_.interval + block_.interval) % block_.interval;
        const Work*& there = in_slot[as_size(slot)];
        if (there != nullptr) {
          broken(where + there->name + " (slot " + std::to_string(there->slot) + ") and " + work.name +
                 " (slot " + std::to_string(work.slot) + ") share slot " + std::to_string(slot) +
                 " of the interval of " + std::to_string(interval));
        }
        there = &work;
      }
    }
  }

  void broken(const std::string& line) {
    constexpr int kMaxLines = 8;
    if (++lines_ > kMaxLines) return;
    text_ += (lines_ == kMaxLines ? "and more" : line) + '\n';
  }

  const BuildingBlock& block_;
  std::string text_;
  int lines_ = 0;
};

}  // namespace

std::string broken_rules(const BuildingBlock& block) { return BlockRules(block).run(); }

Expected<Schedule> repeat_block(const std::string& name, const RepeatedBlockSpec& spec) {
  RepeatedBlock repeated(spec.block, spec.microbatches);
  const bool fills = spec.block.splits_backward && !spec.block.stages.front().weight;
  if (fills) repeated.fill_weights();
  if (spec.reordering == Reordering::none) return repeated.schedule(name);
  repeated.compact(spec.reordering);
  if (fills) {
    repeated.squeeze();
    // Once more without the W, which then take what is left: first to close up, then for good.
    repeated.drop_weights();
    repeated.compact_cooldown(spec.reordering);
    repeated.fill_weights();
    repeated.squeeze();
    repeated.drop_weights();
    repeated.fill_weights();
  }
  return repeated.schedule(name);
}

}  // namespace ppsim::schedules

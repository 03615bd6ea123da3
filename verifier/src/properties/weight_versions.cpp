#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// The versions of a block that one rank holds as its list is walked: the newest, and older ones that are
/// still to be read.
struct Held {
  int newest = 0;
  int count = 1;    ///< versions held
  int most = 1;     ///< of them at any time
  int max_due = 1;  ///< of them if none is kept for longer than its readers need
  struct Readers {
    int left = 0;  ///< still to come
    Action last;
  };
  std::vector<Readers> readers;  ///< per version
};

/// Follows the weights of one rank through its list: compute runs in issue order on one queue, so the list
/// alone decides.
class RankVersions {
 public:
  RankVersions(const Program& program, RankId rank, std::vector<Violation>& found)
      : program_(program),
        pipeline_(program.pipeline()),
        rank_(rank),
        found_(found),
        held_(as_size(pipeline_.blocks())) {
    for_each_action([&](InstructionId, const Action& a) {
      if (reads_weights(a.kind) && !is_padding(pipeline_, a)) expect(a);
      if (a.kind == OpKind::reduce_grad) reduced_[{a.block(), a.microbatch}] = true;
    });
  }

  void walk() {
    for_each_action([&](InstructionId id, const Action& a) {
      at_ = id;
      if (reads_weights(a.kind) && !is_padding(pipeline_, a)) read(a);
      if (gives_weight_gradient(a.kind)) add_gradient(a);
      if (a.kind == OpKind::optimizer) update(a);
    });
  }

  /// The most versions of one block that the rank holds at once.
  [[nodiscard]] int most() const {
    int most = 1;
    for (const Held& held : held_) most = std::max(most, held.most);
    return most;
  }
  [[nodiscard]] int newest(BlockId block) const { return held_[block.index()].newest; }

 private:
  template <class Visit>
  void for_each_action(Visit visit) {
    for (const InstructionId id : program_.ids_of(rank_)) {
      for (const Action& action : program_.actions(id)) {
        if (belongs_on(pipeline_, action, rank_)) visit(id, action);
      }
    }
  }

  [[nodiscard]] std::string text(const Action& action) const { return action_text(pipeline_, action); }

  template <class... Parts>
  void broken(const Action& action, const Parts&... parts) {
    found_.push_back({at_, concatenated("rank ", rank_, ": ", text(action), parts...)});
  }

  void expect(const Action& a) {
    const int version = pipeline_.version(a.stage(), a.mb());
    for (const BlockId block : pipeline_.blocks_of(a.stage())) {
      Held& held = held_[block.index()];
      if (held.readers.size() <= as_size(version)) {
        held.readers.resize(as_size(version) + 1);
      }
      Held::Readers& readers = held.readers[as_size(version)];
      ++readers.left;
      readers.last = a;
      const int behind = pipeline_.spec().update[a.mb()] - version;
      held.max_due = std::max(held.max_due, 1 + behind);
    }
  }

  void read(const Action& a) {
    const int version = pipeline_.version(a.stage(), a.mb());
    for (const BlockId block : pipeline_.blocks_of(a.stage())) {
      Held& held = held_[block.index()];
      const int left = --held.readers[as_size(version)].left;
      if (version > held.newest) {
        broken(a, " reads version ", version, " of block ", block, ", of which the newest is ", held.newest);
      } else if (left == 0 && version < held.newest) {
        --held.count;
      }
    }
  }

  void add_gradient(const Action& a) {
    if (is_padding(pipeline_, a.mb())) return;
    const int update = pipeline_.spec().update[a.mb()];
    for (const BlockId block : pipeline_.blocks_of(a.stage())) {
      if (update >= held_[block.index()].newest) continue;
      broken(a, " adds to the gradients of block ", block, " after ",
             text(make_action(OpKind::optimizer, block.value(), update)));
    }
  }

  void update(const Action& a) {
    Held& held = held_[a.block().index()];
    if (a.update() != held.newest) {
      broken(a, " makes version ", a.update() + 1, " of block ", a.block(), ", of which the newest is ",
             held.newest);
    }
    if (const auto missing = missing_sum(a); is_shared(a.block()) && missing) {
      broken(a, " updates its copy of block ", a.block(), " without ",
             text(make_action(OpKind::reduce_grad, a.subject, *missing)));
    }
    if (a.update() < held.newest) return;
    const auto old = as_size(held.newest);
    held.newest = a.update() + 1;
    const bool kept = old < held.readers.size() && held.readers[old].left > 0;
    if (kept) ++held.count;
    if (held.count > std::max(held.most, held.max_due)) {
      broken(a, " leaves ", held.count, " versions of block ", a.block(), ", expected at most ", held.max_due,
             still_read(held));
    }
    held.most = std::max(held.most, held.count);
  }

  /// The number of a REDUCE_GRAD that an OPT needs and its rank lacks.
  [[nodiscard]] std::optional<int> missing_sum(const Action& a) const {
    const auto lacks = [&](int number) { return !reduced_.contains({a.block(), number}); };
    if (!pipeline_.spec().blocks[a.block()].reduced_each_microbatch)
      return lacks(a.update()) ? std::optional(a.update()) : std::nullopt;
    for (const MicrobatchId mb : pipeline_.microbatches_of_update(a.update())) {
      if (lacks(mb.value())) return mb.value();
    }
    return std::nullopt;
  }

  /// Which older versions are kept, and for what.
  [[nodiscard]] std::string still_read(const Held& held) const {
    std::ostringstream out;
    for (std::size_t v = 0; v < std::min(held.readers.size(), as_size(held.newest)); ++v) {
      if (held.readers[v].left > 0) out << "; " << text(held.readers[v].last) << " reads version " << v;
    }
    return out.str();
  }

  [[nodiscard]] bool is_shared(BlockId block) const {
    const std::vector<StageId>& stages = pipeline_.spec().blocks[block].stages;
    return std::ranges::any_of(stages, [&](StageId s) { return pipeline_.rank_of(s) != rank_; });
  }

  const Program& program_;
  const Pipeline& pipeline_;
  RankId rank_;
  std::vector<Violation>& found_;
  std::vector<Held> held_;                           ///< per block
  std::map<std::pair<BlockId, int>, bool> reduced_;  ///< by the number of the REDUCE_GRAD
  InstructionId at_;
};

}  // namespace

// The copies of a block on several ranks are one block: each is updated from the sum of all gradients.
Answer check_weight_versions(const AnalyzedProgram& analyzed) {
  const Program& program = analyzed.program();
  const Pipeline& pipeline = program.pipeline();
  std::vector<Violation> found;
  std::string held = "versions held per rank:";
  for (const RankId r : pipeline.rank_ids()) {
    RankVersions rank(program, r, found);
    rank.walk();
    held += ' ' + std::to_string(rank.most());
  }
  Answer answer{proved_unless(std::move(found))};
  if (pipeline.asynchronous()) answer.notes.push_back(std::move(held));
  return answer;
}

}  // namespace ppsim::verifier

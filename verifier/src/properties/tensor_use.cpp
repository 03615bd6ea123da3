#include <algorithm>
#include <optional>
#include <sstream>
#include <tuple>

#include "ppsim/core/execution/happens_before.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/memory/tensor_use.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

bool shares_queue(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int queue) { return std::ranges::find(b, queue) != b.end(); });
}

/// Which instructions of a rank are complete before others in every timing. Most answers can be read off the
/// queues and the waits of an instruction; happens-before of the rank is made for the rest alone.
class RankOrder {
 public:
  RankOrder(const AnalyzedProgram& analyzed, const Limits& limits)
      : program_(analyzed.program()),
        graph_(analyzed.guaranteed_graph()),
        order_(analyzed.order()),
        limits_(limits) {}

  /// One queue runs both, or what `second` waits for does.
  [[nodiscard]] bool directly_before(InstructionId first, InstructionId second) const {
    if (behind(first, second)) return true;
    const auto waits = graph_.predecessors_of(second);
    return std::ranges::any_of(waits, [&](InstructionId w) { return w == first || behind(first, w); });
  }
  [[nodiscard]] bool completes_before_start(InstructionId first, InstructionId second) {
    return directly_before(first, second) || clocks(first).completes_before_start(first, second);
  }
  [[nodiscard]] bool completes_before_completion(InstructionId first, InstructionId second) {
    return directly_before(first, second) || clocks(first).completes_before_completion(first, second);
  }

 private:
  [[nodiscard]] bool behind(InstructionId first, InstructionId second) const {
    return first < second && shares_queue(program_.queues_of(first), program_.queues_of(second));
  }
  const HappensBefore& clocks(InstructionId id) {
    const RankId rank = program_.rank_of(id);
    if (!clocks_ || rank_ != rank) {
      limits_.poll();
      if (!plan_) plan_.emplace(graph_, order_);
      clocks_ = HappensBefore::of_rank(program_, graph_, *plan_, rank);
      rank_ = rank;
    }
    return *clocks_;
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  const RunOrder& order_;
  const Limits& limits_;
  std::optional<ClockPlan> plan_;
  RankId rank_;
  std::optional<HappensBefore> clocks_;
};

class Checker {
 public:
  Checker(const AnalyzedProgram& analyzed, const Limits& limits)
      : program_(analyzed.program()), order_(analyzed, limits) {}

  std::vector<Violation> run() {
    TensorUses uses = tensor_uses(program_);
    for (const UnwrittenRead& read : uses.unwritten) {
      Tensor what;
      what.size_class = read.size_class;
      what.microbatch = read.microbatch;
      report(read.reader, {" uses ", tensor_text(what), ", which nothing has written by then"});
    }
    table_ = std::move(uses.table);
    for (const Tensor& tensor : table_.tensors) {
      if (info(tensor.size_class.kind).writes != Writes::once)
        continue;  // weight_versions looks at parameters
      check_complete(tensor);
      check_freed(tensor);
    }
    // Two tensors that go together, such as both parts of the saved activations, break a rule twice.
    std::ranges::stable_sort(found_, {},
                             [](const Violation& v) { return std::tie(v.instruction, v.message); });
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  void report(InstructionId id, std::initializer_list<std::string> parts) {
    std::ostringstream text;
    text << "rank " << program_.rank_of(id) << ": " << actions_text(program_, id);
    for (const std::string& part : parts) text << part;
    found_.push_back({id, text.str()});
  }

  /// Every reader starts after all writers of what it reads are complete.
  void check_complete(const Tensor& tensor) {
    const auto all = table_.writers_of(tensor);
    const bool in_parts = comes_in_parts(tensor);
    std::optional<InstructionId> after_all;  // a reader of which that is known
    for (const InstructionId user : table_.users_of(tensor)) {
      if (std::ranges::find(all, user) != all.end()) continue;
      const auto of_parts =
          in_parts ? writers_before(program_, table_, tensor, user) : std::vector<InstructionId>();
      const auto writers = in_parts ? std::span(of_parts) : all;
      const auto late = std::ranges::find_if(writers, [&](InstructionId writer) {
        return !order_.directly_before(writer, user) &&
               !(after_all && order_.directly_before(*after_all, user)) &&
               !order_.completes_before_start(writer, user);
      });
      if (late == writers.end()) {
        if (!after_all && writers.size() == all.size()) after_all = user;
      } else {
        report(user, {" can use ", tensor_text(tensor), " before ", actions_text(program_, *late),
                      " has completed it"});
      }
    }
  }

  /// At most one instruction frees the tensor, and every other user is complete by then.
  void check_freed(const Tensor& tensor) {
    const auto users = table_.users_of(tensor);
    const auto frees_it = [&](InstructionId id) {
      return std::ranges::any_of(program_.actions(id), [&](const Action& a) { return frees(a, tensor); });
    };
    const auto freeing = std::ranges::find_if(users, frees_it);
    if (freeing == users.end()) return;
    for (const InstructionId user : users) {
      if (user == *freeing || order_.completes_before_completion(user, *freeing)) continue;
      report(user, {" can use ", tensor_text(tensor), " after ", actions_text(program_, *freeing),
                    " has freed it"});
    }
  }

  const Program& program_;
  RankOrder order_;
  TensorTable table_;
  std::vector<Violation> found_;
};

}  // namespace

Answer check_tensor_use(const AnalyzedProgram& analyzed, const Limits& limits) {
  if (!analyzed.finishes()) return {Unknown{why_stuck(analyzed)}, "graph"};
  return {proved_unless(Checker(analyzed, limits).run()), "graph"};
}

}  // namespace ppsim::verifier

#include "ppsim/core/execution/analyzed_program.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace ppsim {

struct AnalyzedProgram::Parts {
  /// A value that its first reader makes.
  template <class T>
  class Lazy {
   public:
    template <class Make>
    const T& get(Make make) const {
      std::call_once(once_, [&] { value_.emplace(make()); });
      return *value_;
    }

   private:
    mutable std::once_flag once_;
    mutable std::optional<T> value_;
  };

  Parts(std::optional<Program> taken, const Program* referred, const TransportCapabilities& on)
      : own(std::move(taken)), other(referred), capabilities(on) {}

  /// The waits of the transport, or some of them.
  [[nodiscard]] ExecutionGraph graph_of(const TransportCapabilities& waits) const {
    return build_execution_graph(own ? *own : *other, waits);
  }

  std::optional<Program> own;
  const Program* other;  ///< where it is not its own
  TransportCapabilities capabilities;
  Lazy<ExecutionGraph> graph;
  Lazy<ExecutionGraph> timed_graph;
  Lazy<ExecutionGraph> guaranteed_graph;
  Lazy<RunOrder> order;
  Lazy<RunOrder> timed_order;
  Lazy<RunOrder> guaranteed_order;
  Lazy<TensorTable> tensors;
  Lazy<bool> matched;
};

AnalyzedProgram::AnalyzedProgram(const Program& program, const TransportCapabilities& capabilities)
    : parts_(std::make_shared<const Parts>(std::nullopt, &program, capabilities)) {}

AnalyzedProgram::AnalyzedProgram(Program&& program, const TransportCapabilities& capabilities)
    : parts_(std::make_shared<const Parts>(std::move(program), nullptr, capabilities)) {}

const Program& AnalyzedProgram::program() const { return parts_->own ? *parts_->own : *parts_->other; }
const TransportCapabilities& AnalyzedProgram::capabilities() const { return parts_->capabilities; }

const ExecutionGraph& AnalyzedProgram::graph() const {
  return parts_->graph.get([&] { return parts_->graph_of(capabilities()); });
}

const ExecutionGraph& AnalyzedProgram::timed_graph() const {
  if (capabilities().has_certain_launches()) return graph();
  return parts_->timed_graph.get([&] { return parts_->graph_of(timed(capabilities())); });
}

const ExecutionGraph& AnalyzedProgram::guaranteed_graph() const {
  if (!capabilities().eager) return timed_graph();
  return parts_->guaranteed_graph.get([&] { return parts_->graph_of(guaranteed(capabilities())); });
}

const RunOrder& AnalyzedProgram::order() const {
  return parts_->order.get([&] { return run_order(graph()); });
}

const RunOrder& AnalyzedProgram::timed_order() const {
  if (capabilities().has_certain_launches()) return order();
  return parts_->timed_order.get([&] { return run_order(timed_graph()); });
}

const RunOrder& AnalyzedProgram::guaranteed_order() const {
  if (!capabilities().eager) return timed_order();
  return parts_->guaranteed_order.get([&] { return run_order(guaranteed_graph()); });
}

const TensorTable& AnalyzedProgram::tensors() const {
  return parts_->tensors.get([&] { return tensor_table(program()); });
}

bool AnalyzedProgram::is_matched() const {
  return parts_->matched.get([&] {
    return std::ranges::all_of(graph().messages, &Message::matched) &&
           std::ranges::all_of(graph().matches, &CollectiveMatch::matched);
  });
}

}  // namespace ppsim

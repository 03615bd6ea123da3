#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <ostream>

#include "chakra.pb.h"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/writers/chakra.hpp"

namespace ppsim::simulator {
namespace {

/// Bytes that an action moves; 0 for what moves nothing.
Bytes bytes_of(const SizeTable& sizes, const Action& action, const Action& send) {
  if (is_transfer(action.kind)) return sizes(payload_class(send));
  if (action.kind == OpKind::unshard)
    return sizes({.kind = TensorKind::gathered_parameters, .subject = action.subject});
  if (action.kind == OpKind::reduce_grad)
    return sizes({.kind = TensorKind::gradients, .subject = action.subject});
  return action.kind == OpKind::collective ? Bytes{sizeof(float)} : 0;  // the norm: one number
}

/// Bytes between device and host: a batch, or what a forward has saved. 0 where nothing says how many.
Bytes copied_bytes(const SizeTable& sizes, const Action& copy) {
  const auto size = [&](TensorKind kind) {
    return sizes({.kind = kind, .subject = copy.subject, .slice = copy.slice});
  };
  if (copy.kind == OpKind::load) return size(TensorKind::boundary_input);
  return checked_add(size(TensorKind::saved_for_input), size(TensorKind::saved_for_weight));
}

/// Takes the time of other ranks, too.
bool is_shared(const AnalyzedProgram& analyzed, InstructionId id) {
  const std::int32_t match = analyzed.timed_graph().match_of[id.index()];
  return match >= 0 && analyzed.timed_graph().matches[as_size(match)].member_count > 1;
}

/// Chakra counts groups from 1: 0 stands for all ranks.
int group_number(CommunicatorId communicator) { return communicator.value() + 1; }

class ChakraWriter {
 public:
  ChakraWriter(const ChakraInput& input, RankId rank)
      : input_(input), program_(input.analyzed.program()), graph_(input.analyzed.timed_graph()), rank_(rank) {
    first_node_.reserve(as_size(program_.last(rank).value() - program_.first(rank).value()));
    std::uint64_t node = 0;
    for (const InstructionId id : program_.ids_of(rank)) {
      first_node_.push_back(node);
      node += nodes_of(id);
    }
  }

  void write(std::ostream& out) {
    google::protobuf::io::OstreamOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    chakra::GlobalMetadata metadata;
    metadata.set_version("0.0.4");
    emit(metadata, coded);
    for (const InstructionId id : program_.ids_of(rank_)) {
      for (std::size_t i = 0; i < nodes_of(id); ++i) emit(node_of(id, i), coded);
    }
  }

 private:
  /// Every message behind its length.
  template <class Message>
  static void emit(const Message& message, google::protobuf::io::CodedOutputStream& out) {
    out.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
    message.SerializeToCodedStream(&out);
  }

  [[nodiscard]] std::size_t nodes_of(InstructionId id) const {
    const bool is_group = program_.instruction(id).form == InstructionForm::group;
    return is_group ? program_.actions(id).size() : 1;
  }

  [[nodiscard]] chakra::Node node_of(InstructionId id, std::size_t member) const {
    const Action& action = program_.actions(id)[member];
    chakra::Node node;
    node.set_id(first_node(id) + member);
    const bool is_group = program_.instruction(id).form == InstructionForm::group;
    node.set_name(is_group ? action_text(program_.pipeline(), action) : actions_text(program_, id));
    add_dependencies(id, node);
    set_duration(input_.costs(cost_of(id, action)), node);
    // Computation of the GPU is one at a time, and a collective without other ranks is beside it.
    const bool alone = info(action.kind).resource == Resource::collective && !is_shared(input_.analyzed, id);
    add_bool(node, "is_cpu_op", alone);
    if (is_transfer(action.kind)) {
      describe_transfer(id, member, node);
    } else if (is_shared(input_.analyzed, id)) {
      describe_collective(id, node);
    } else if (info(action.kind).resource == Resource::copy) {
      node.set_type(action.kind == OpKind::offload ? chakra::MEM_STORE_NODE : chakra::MEM_LOAD_NODE);
      add_int64(node, "tensor_size", copied_bytes(input_.sizes, action));
    } else {
      node.set_type(chakra::COMP_NODE);
    }
    return node;
  }

  /// A transfer takes what its SEND says, at both ends.
  [[nodiscard]] CostClass cost_of(InstructionId id, const Action& action) const {
    if (is_receive(action.kind)) return cost_class_of(counterpart(action, rank_));
    const bool is_group = program_.instruction(id).form == InstructionForm::group;
    return is_group ? cost_class_of(action)
                    : cost_class_of(program_.actions(id), program_.instruction(id).form);
  }

  [[nodiscard]] std::uint64_t first_node(InstructionId id) const {
    return first_node_[as_size(id.value() - program_.first(rank_).value())];
  }

  /// The feeder of ASTRA-sim looks at data dependencies alone (mlcommons/chakra, src/feeder/et_feeder.cpp),
  /// so every wait is one; those that are for the order are control dependencies, too.
  static void add_wait(std::uint64_t other, bool is_data, chakra::Node& node) {
    node.add_data_deps(other);
    if (!is_data) node.add_ctrl_deps(other);
  }

  /// Every node of an instruction before it counts: it is complete when all are.
  void add_dependencies(InstructionId id, chakra::Node& node) const {
    const auto before = graph_.predecessors_of(id);
    const auto reasons = graph_.reasons_of(id);
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (std::size_t n = 0; n < nodes_of(before[i]); ++n) {
        add_wait(first_node(before[i]) + n, reasons[i] == WaitReason::data, node);
      }
    }
  }

  static void set_duration(Nanoseconds duration, chakra::Node& node) {
    constexpr Nanoseconds kMicrosecond = 1000;
    node.set_duration_micros(static_cast<std::uint64_t>(
        duration / kMicrosecond + (duration % kMicrosecond >= kMicrosecond / 2 ? 1 : 0)));
  }

  /// A channel moves one message after another, those of a group, too.
  void add_message_before(InstructionId id, const Message& message, chakra::Node& node) const {
    if (message.previous < 0) return;
    const Message& before = graph_.messages[as_size(message.previous)];
    if (before.send != id && before.receive != id) return;  // which the queue has in order
    const std::uint32_t action = before.send == id ? before.send_action : before.receive_action;
    add_wait(first_node(id) + action - program_.instruction(id).first_action, false, node);
  }

  void describe_transfer(InstructionId id, std::size_t member, chakra::Node& node) const {
    const std::uint32_t index = message_of(id, member);
    const Message& message = graph_.messages[index];
    add_message_before(id, message, node);
    const Action& send = program_.all_actions()[message.send_action];
    const bool sends = message.send == id && is_send(program_.actions(id)[member].kind);
    node.set_type(sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
    add_int32(node, "comm_src", program_.rank_of(message.send).value());
    add_int32(node, "comm_dst", program_.rank_of(message.receive).value());
    add_int32(node, "comm_tag", static_cast<std::int32_t>(index));
    add_int64(node, "comm_size", bytes_of(input_.sizes, send, send));
  }

  [[nodiscard]] std::uint32_t message_of(InstructionId id, std::size_t member) const {
    const std::uint32_t wanted = program_.instruction(id).first_action + static_cast<std::uint32_t>(member);
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const Message& message = graph_.messages[index];
      if (message.send_action == wanted || message.receive_action == wanted) return index;
    }
    PPSIM_CHECK(false, "every transfer of a matched Program is an end of a message");
  }

  void describe_collective(InstructionId id, chakra::Node& node) const {
    const Action& action = program_.actions(id)[0];
    node.set_type(chakra::COMM_COLL_NODE);
    add_int64(node, "comm_type", action.kind == OpKind::unshard ? chakra::ALL_GATHER : chakra::ALL_REDUCE);
    add_int64(node, "comm_size", bytes_of(input_.sizes, action, action));
    chakra::AttributeProto& group = *node.add_attr();
    group.set_name("pg_name");
    group.set_string_val(std::to_string(group_number(program_.communicators_of(id)[0])));
  }

  static void add_bool(chakra::Node& node, const char* name, bool value) {
    chakra::AttributeProto& attribute = *node.add_attr();
    attribute.set_name(name);
    attribute.set_bool_val(value);
  }
  static void add_int32(chakra::Node& node, const char* name, std::int32_t value) {
    chakra::AttributeProto& attribute = *node.add_attr();
    attribute.set_name(name);
    attribute.set_int32_val(value);
  }
  static void add_int64(chakra::Node& node, const char* name, std::int64_t value) {
    chakra::AttributeProto& attribute = *node.add_attr();
    attribute.set_name(name);
    attribute.set_int64_val(value);
  }

  const ChakraInput& input_;
  const Program& program_;
  const ExecutionGraph& graph_;
  RankId rank_;
  std::vector<std::uint64_t> first_node_;  ///< per instruction of the rank
};

}  // namespace

Expected<void> check_chakra(const ChakraInput& input) {
  const Program& program = input.analyzed.program();
  for (const InstructionId id : program.ids()) {
    for (const Action& action : program.actions(id)) {
      if (action.kind == OpKind::collective &&
          !program.pipeline().spec().collectives[action.collective()].per_update()) {
        return make_error(ErrorCode::refused, "nothing says how much a collective within a microbatch sums",
                          {.found = actions_text(program, id), .expected = "a schedule without one"});
      }
      const bool moves = is_send(action.kind) || is_shared(input.analyzed, id);
      if (!moves || bytes_of(input.sizes, action, action) > 0) continue;
      return make_error(ErrorCode::bad_argument, "a network simulator needs the bytes of every message",
                        {.found = "no size of " + actions_text(program, id),
                         .expected = "--model, or --costs with boundary_output, incoming_gradient and what "
                                     "collectives sum"});
    }
  }
  return {};
}

void write_chakra(std::ostream& out, const ChakraInput& input, RankId rank) {
  ChakraWriter(input, rank).write(out);
}

void write_chakra_groups(std::ostream& out, const ChakraInput& input) {
  const Program& program = input.analyzed.program();
  std::vector<bool> used(program.communicators().size(), false);
  for (const InstructionId id : program.ids()) {
    if (is_shared(input.analyzed, id)) used[program.communicators_of(id)[0].index()] = true;
  }
  const char* before = "{";
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (!used[c]) continue;
    const CommunicatorId id(static_cast<std::int32_t>(c));
    out << std::exchange(before, ",\n ") << '"' << group_number(id) << "\": [";
    const char* separator = "";
    for (const RankId member : program.communicator(id).members)
      out << std::exchange(separator, ", ") << member;
    out << ']';
  }
  out << (*before == '{' ? "{}\n" : "}\n");
}

}  // namespace ppsim::simulator

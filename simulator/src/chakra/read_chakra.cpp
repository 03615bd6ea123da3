#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "chakra.pb.h"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/simulator/chakra/chakra_trace.hpp"

namespace ppsim::simulator {
namespace {

constexpr const char* kChakraExpected =
    "an execution trace of MLCommons Chakra: messages behind their lengths, metadata first, then nodes";

tl::unexpected<Error> broken_trace(const std::string& file, std::string why, std::string found,
                                   std::string expected = kChakraExpected) {
  return make_error(ErrorCode::bad_file, std::move(why),
                    {.file = file, .found = std::move(found), .expected = std::move(expected)});
}

/// The messages of a file, one after another.
class Messages {
 public:
  explicit Messages(const ChakraFile& file) : file_(file) {}

  [[nodiscard]] bool at_end() const { return at_ == file_.bytes.size(); }

  template <class Message>
  Expected<Message> next() {
    const std::size_t begin = at_;
    PPSIM_ASSIGN_OR_RETURN(const auto length, read_length());
    if (length > file_.bytes.size() - at_)
      return broken_trace(file_.name, "the trace is cut off",
                          std::to_string(file_.bytes.size() - at_) + " bytes behind byte " +
                              std::to_string(at_) + ", for a message of " + std::to_string(length));
    Message message;
    if (!message.ParseFromArray(file_.bytes.data() + at_, static_cast<int>(length)))
      return broken_trace(file_.name, "no message of a trace", "at byte " + std::to_string(begin));
    at_ += length;
    return message;
  }

 private:
  Expected<std::size_t> read_length() {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(file_.bytes.data());
    const std::size_t rest = std::min<std::size_t>(file_.bytes.size() - at_, 16);
    google::protobuf::io::CodedInputStream stream(bytes + at_, static_cast<int>(rest));
    std::uint32_t length = 0;
    if (!stream.ReadVarint32(&length) || length > std::numeric_limits<std::int32_t>::max())
      return broken_trace(file_.name, "no length of a message", "at byte " + std::to_string(at_));
    at_ += static_cast<std::size_t>(stream.CurrentPosition());
    return length;
  }

  const ChakraFile& file_;
  std::size_t at_ = 0;
};

/// A whole number, in whichever type a writer has it.
std::optional<std::int64_t> whole_value(const chakra::AttributeProto& attribute) {
  switch (attribute.value_case()) {
    case chakra::AttributeProto::kInt32Val:
      return attribute.int32_val();
    case chakra::AttributeProto::kInt64Val:
      return attribute.int64_val();
    case chakra::AttributeProto::kUint32Val:
      return attribute.uint32_val();
    case chakra::AttributeProto::kUint64Val:
      if (attribute.uint64_val() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        return std::nullopt;
      return static_cast<std::int64_t>(attribute.uint64_val());
    case chakra::AttributeProto::kBoolVal:
    case chakra::AttributeProto::kStringVal:
    case chakra::AttributeProto::VALUE_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

ChakraWork work_of(chakra::NodeType type, bool on_host) {
  switch (type) {
    case chakra::INVALID_NODE:
    case chakra::METADATA_NODE:
      return ChakraWork::nothing;
    case chakra::MEM_LOAD_NODE:
    case chakra::MEM_STORE_NODE:
      return on_host ? ChakraWork::host : ChakraWork::memory;
    case chakra::COMP_NODE:
      return on_host ? ChakraWork::host : ChakraWork::compute;
    case chakra::COMM_SEND_NODE:
      return ChakraWork::send;
    case chakra::COMM_RECV_NODE:
      return ChakraWork::receive;
    case chakra::COMM_COLL_NODE:
      return ChakraWork::collective;
  }
  return ChakraWork::nothing;
}

/// Reads the nodes of one rank.
class RankReader {
 public:
  RankReader(const ChakraFile& file, int rank, int ranks) : file_(file), rank_(rank), ranks_(ranks) {}

  Expected<std::vector<ChakraNode>> read() {
    if (file_.bytes.empty()) return broken_trace(file_.name, "no trace", "an empty file");
    Messages messages(file_);
    PPSIM_ASSIGN_OR_RETURN(const auto metadata, messages.next<chakra::GlobalMetadata>());
    std::vector<chakra::Node> read;
    while (!messages.at_end()) {
      PPSIM_ASSIGN_OR_RETURN(auto node, messages.next<chakra::Node>());
      PPSIM_RETURN_IF_ERROR(add(node));
      read.push_back(std::move(node));
    }
    // A rank that computes nothing has no node; what else parses as metadata names no version.
    if (read.empty() && !metadata.has_version()) return broken_trace(file_.name, "no trace", "no node");
    for (std::size_t i = 0; i < read.size(); ++i) PPSIM_RETURN_IF_ERROR(add_needs(read[i], nodes_[i]));
    return std::move(nodes_);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(const chakra::Node& node, std::string why, std::string found,
                                            std::string expected) const {
    return broken_trace(file_.name, "node " + std::to_string(node.id()) + ": " + std::move(why),
                        std::move(found), std::move(expected));
  }

  Expected<void> add(const chakra::Node& node) {
    if (!node.has_id() || !node.has_type())
      return broken_trace(file_.name, "a node without id or type", "node " + std::to_string(nodes_.size()));
    if (!places_.emplace(node.id(), static_cast<std::uint32_t>(nodes_.size())).second)
      return wrong(node, "two nodes have one id", node.name(), "each once");
    constexpr auto kMaxMicros = std::uint64_t{std::numeric_limits<Nanoseconds>::max()} / 1000;
    if (node.duration_micros() > kMaxMicros)
      return wrong(node, "a duration of more than 292 years", std::to_string(node.duration_micros()) + " us",
                   "at most " + std::to_string(kMaxMicros));
    ChakraNode result{.id = node.id(), .name = node.name()};
    result.duration = static_cast<Nanoseconds>(node.duration_micros()) * 1000;
    PPSIM_RETURN_IF_ERROR(read_attributes(node, result));
    nodes_.push_back(std::move(result));
    return {};
  }

  Expected<void> read_attributes(const chakra::Node& node, ChakraNode& result) {
    bool on_host = false;
    for (const chakra::AttributeProto& attribute : node.attr()) {
      const auto whole = whole_value(attribute);
      const std::string& name = attribute.name();
      if (name == "is_cpu_op") on_host = attribute.bool_val() || whole.value_or(0) != 0;
      if (name == "pg_name") result.group = attribute.string_val();
      if (name == "comm_tag") result.tag = whole.value_or(0);
      if (name == "comm_size") {
        if (!whole || *whole < 0)
          return wrong(node, "comm_size is no number of bytes", whole ? std::to_string(*whole) : "none",
                       "0 or more");
        result.bytes = *whole;
      }
      if (name == "comm_src") result.from = rank_of(whole);
      if (name == "comm_dst") result.to = rank_of(whole);
    }
    result.work = work_of(node.type(), on_host);
    return check_ranks(node, result);
  }

  [[nodiscard]] int rank_of(std::optional<std::int64_t> value) const {
    return value && *value >= 0 && *value < ranks_ ? static_cast<int>(*value) : -1;
  }

  Expected<void> check_ranks(const chakra::Node& node, const ChakraNode& result) const {
    const bool message = result.work == ChakraWork::send || result.work == ChakraWork::receive;
    if (!message) return {};
    if (result.from < 0 || result.to < 0)
      return wrong(
          node, "a message without its two ranks", node.name(),
          "comm_src and comm_dst from 0 to " + std::to_string(ranks_ - 1) + ", one file for each rank");
    const int own = result.work == ChakraWork::send ? result.from : result.to;
    if (own == rank_) return {};
    return wrong(node, "a message of another rank", std::to_string(own), std::to_string(rank_));
  }

  Expected<void> add_needs(const chakra::Node& node, ChakraNode& result) const {
    for (const auto* dependencies : {&node.data_deps(), &node.ctrl_deps()}) {
      for (const std::uint64_t id : *dependencies) {
        const auto found = places_.find(id);
        if (found == places_.end())
          return wrong(node, "it needs a node that is not there", std::to_string(id), "the id of a node");
        if (id == node.id())
          return wrong(node, "it waits for itself", std::to_string(id), "the id of another node");
        result.needs.push_back(found->second);
      }
    }
    // A node that is both a data and a control dependency counts once.
    sort_unique(result.needs);
    return {};
  }

  const ChakraFile& file_;
  int rank_;
  int ranks_;
  std::vector<ChakraNode> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;
};

/// The text of a value; of an array or object only its type: writing a nested value out takes as much stack
/// as the value is deep.
std::string brief(const nlohmann::json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name() : value.dump();
}

Expected<std::vector<int>> group_members(const nlohmann::json& members, const std::string& file,
                                         const std::string& name, std::int64_t ranks) {
  if (!members.is_array())
    return broken_trace(file, "no ranks of group " + name, brief(members), "a list of ranks: [0, 1]");
  std::vector<int> result;
  std::vector<bool> is_member(static_cast<std::size_t>(ranks), false);
  for (const auto& member : members) {
    const std::int64_t rank = member.is_number_integer() ? member.get<std::int64_t>() : -1;
    if (rank < 0 || rank >= ranks)
      return broken_trace(file, "no rank of group " + name, brief(member),
                          "0 to " + std::to_string(ranks - 1));
    if (is_member[static_cast<std::size_t>(rank)])
      return broken_trace(file, "a rank is in group " + name + " twice", brief(member), "each once");
    is_member[static_cast<std::size_t>(rank)] = true;
    result.push_back(static_cast<int>(rank));
  }
  return result;
}

}  // namespace

Expected<ChakraTrace> read_chakra(std::span<const ChakraFile> ranks) {
  ChakraTrace trace;
  const auto count = static_cast<int>(ranks.size());
  for (int rank = 0; rank < count; ++rank) {
    PPSIM_ASSIGN_OR_RETURN(auto nodes, RankReader(ranks[static_cast<std::size_t>(rank)], rank, count).read());
    trace.ranks.push_back(std::move(nodes));
  }
  return trace;
}

Expected<void> add_chakra_groups(std::string_view text, const std::string& file, ChakraTrace& trace) {
  const auto root = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!root.is_object())
    return broken_trace(file, "no groups of ranks", "no object", R"({"1": [0, 1]}, as JSON)");
  const auto ranks = static_cast<std::int64_t>(trace.ranks.size());
  for (const auto& [name, members] : root.items()) {
    PPSIM_ASSIGN_OR_RETURN(trace.groups[name], group_members(members, file, name, ranks));
  }
  return {};
}

}  // namespace ppsim::simulator

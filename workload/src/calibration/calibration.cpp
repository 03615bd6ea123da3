#include "ppsim/workload/calibration.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "io/json/file.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kCalibrationFormat = "ppsim-calibration";

/// In the order of MeasuredOperation.
constexpr std::array<std::string_view, 5> kOperationNames = {"all_gather", "all_reduce", "alltoall",
                                                             "reduce_scatter", "sendrecv"};

struct ConstantKey {
  const char* key;
  double FittedConstants::*member;
};
constexpr auto kConstantKeys =
    std::to_array<ConstantKey>({{"exposed_share", &FittedConstants::exposed_share},
                                {"network_efficiency", &FittedConstants::network_efficiency},
                                {"product_slowdown", &FittedConstants::product_slowdown},
                                {"kernel_time", &FittedConstants::kernel_time}});

ordered_json collective_json(const MeasuredCollective& collective) {
  ordered_json times = ordered_json::array();
  for (const MeasuredTime& one : collective.times) times.push_back({{"bytes", one.bytes}, {"ns", one.time}});
  return {{"operation", operation_name(collective.operation)},
          {"gpus", collective.group.gpus},
          {"gpus_per_node", collective.group.gpus_per_node},
          {"times", std::move(times)}};
}

ordered_json calibration_json(const Calibration& calibration) {
  ordered_json root = {{"format", kCalibrationFormat}, {"version", 1}};
  for (const auto& [kind, factor] : calibration.factors)
    root["factors"].push_back({{"kind", info(kind).text}, {"factor", factor}});
  if (calibration.constants) {
    for (const ConstantKey& one : kConstantKeys)
      root["constants"][one.key] = (*calibration.constants).*one.member;
  }
  for (const MeasuredCollective& collective : calibration.collectives)
    root["collectives"].push_back(collective_json(collective));
  return root;
}

Expected<void> read_factors(const JsonFile& file, Calibration& calibration) {
  const json entries = file.root().value("factors", json::array());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    // The schema lists the kinds.
    const OpKind kind = op_kind_from_text(entries[i].at("kind").get_ref<const std::string&>()).value();
    if (!calibration.factors.emplace(kind, entries[i].at("factor").get<double>()).second)
      return file.error_at({"factors", std::to_string(i), "kind"}, "a kind given twice",
                           std::string(info(kind).text), "each once");
  }
  return {};
}

Expected<MeasuredCollective> read_collective(const JsonFile& file, const json& entry, std::size_t index) {
  const JsonPath path = {"collectives", std::to_string(index)};
  MeasuredCollective collective;
  collective.operation = operation_from_name(entry.at("operation").get_ref<const std::string&>()).value();
  collective.group = {entry.at("gpus").get<int>(), entry.at("gpus_per_node").get<int>()};
  if (collective.group.gpus_per_node > collective.group.gpus)
    return file.error_at(path, "a node has more GPUs than the group",
                         std::to_string(collective.group.gpus_per_node),
                         "at most " + std::to_string(collective.group.gpus));
  const json& times = entry.at("times");
  for (std::size_t t = 0; t < times.size(); ++t) {
    const MeasuredTime time{times[t].at("bytes").get<Bytes>(), times[t].at("ns").get<Nanoseconds>()};
    if (!collective.times.empty() && time.bytes <= collective.times.back().bytes)
      return file.error_at({"collectives", std::to_string(index), "times", std::to_string(t), "bytes"},
                           "sizes do not ascend", std::to_string(time.bytes),
                           "more than " + std::to_string(collective.times.back().bytes));
    collective.times.push_back(time);
  }
  return collective;
}

Expected<void> read_collectives(const JsonFile& file, Calibration& calibration) {
  const json entries = file.root().value("collectives", json::array());
  std::set<std::pair<MeasuredOperation, GpuGroup>> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    PPSIM_ASSIGN_OR_RETURN(auto collective, read_collective(file, entries[i], i));
    if (!seen.emplace(collective.operation, collective.group).second)
      return file.error_at({"collectives", std::to_string(i)}, "an operation given twice for one group",
                           std::string(operation_name(collective.operation)), "each once");
    calibration.collectives.push_back(std::move(collective));
  }
  return {};
}

}  // namespace

std::string_view operation_name(MeasuredOperation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation));
}

std::optional<MeasuredOperation> operation_from_name(std::string_view name) {
  const auto found = std::ranges::find(kOperationNames, name);
  if (found == kOperationNames.end()) return std::nullopt;
  return static_cast<MeasuredOperation>(found - kOperationNames.begin());
}

double Calibration::factor(const CostTable& model, const CostClass& action) const {
  const auto own = [&](OpKind kind, double otherwise) {
    const auto found = factors.find(kind);
    return found == factors.end() ? otherwise : found->second;
  };
  const auto of_parts = [&](const CostClass& one, const CostClass& other) {
    const auto first = static_cast<double>(model(one));
    const auto second = static_cast<double>(model(other));
    if (first + second == 0) return 1.0;
    return (first * factor(model, one) + second * factor(model, other)) / (first + second);
  };
  // Though it hides a part of either, a pair takes no less than the longer one.
  const auto of_pair = [&](const CostClass& f, const CostClass& b) {
    const double longer = std::max(static_cast<double>(model(f)) * factor(model, f),
                                   static_cast<double>(model(b)) * factor(model, b));
    return std::max(of_parts(f, b), longer / std::max(1.0, static_cast<double>(model(action))));
  };
  if (factors.contains(action.kind)) return factors.at(action.kind);
  CostClass input = action;
  CostClass weight = action;
  switch (action.kind) {
    case OpKind::backward_input:
    case OpKind::backward_weight:
      return own(OpKind::backward, 1);
    case OpKind::recompute:
      return own(OpKind::forward, 1);
    case OpKind::backward:
      input.kind = OpKind::backward_input;
      weight.kind = OpKind::backward_weight;
      return of_parts(input, weight);
    case OpKind::overlap:
      return of_pair({OpKind::forward, action.subject}, {OpKind::backward, action.peer});
    default:
      return 1;
  }
}

Nanoseconds Calibration::scaled(Nanoseconds cost, const CostTable& model, const CostClass& action) const {
  const double times = factor(model, action);
  return times == 1 ? cost : checked_round(static_cast<double>(cost) * times);
}

CostTable Calibration::scaled(const CostTable& costs, const CostTable& model) const {
  CostTable result;
  for (const auto& [action, cost] : costs.entries()) result.set(action, scaled(cost, model, action));
  return result;
}

std::string to_json(const Calibration& calibration) {
  ordered_json root = calibration_json(calibration);
  if (!calibration.sources.empty()) root["sources"] = calibration.sources;
  return root.dump(2) + "\n";
}

Expected<Calibration> calibration_from_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_ASSIGN_OR_RETURN(const auto format, parsed.format({kCalibrationFormat}));
  PPSIM_CHECK(format == kCalibrationFormat, "format() knows no other");
  PPSIM_RETURN_IF_ERROR(parsed.validate("calibration"));
  Calibration calibration;
  PPSIM_RETURN_IF_ERROR(read_factors(parsed, calibration));
  PPSIM_RETURN_IF_ERROR(read_collectives(parsed, calibration));
  if (parsed.root().contains("constants")) {
    calibration.constants.emplace();
    for (const ConstantKey& one : kConstantKeys)
      (*calibration.constants).*one.member = parsed.root().at("constants").at(one.key).get<double>();
  }
  calibration.sources = parsed.root().value("sources", std::vector<std::string>());
  return calibration;
}

std::string calibration_hash(const Calibration& calibration) {
  const std::string text = calibration_json(calibration).dump();
  return bytes_hash(std::as_bytes(std::span(text)));
}

}  // namespace ppsim::workload

#include "ppsim/workload/cluster.hpp"

#include <algorithm>
#include <tuple>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {
namespace {

constexpr int kMaxNodes = 1 << 20;

Expected<void> divides(const char* what, std::int64_t whole, const char* by, std::int64_t part) {
  if (part >= 1 && whole % part == 0) return {};
  return make_error(ErrorCode::bad_argument, std::string(what) + " must be a multiple of " + by,
                    {.found = std::to_string(whole), .expected = "a multiple of " + std::to_string(part)});
}

Expected<void> check_positive(const Parallelism& p) {
  // The product of the first four stays within 64 bits.
  constexpr int kMaxRanks = 1 << 15;
  constexpr int kLargestBatch = 1 << 20;
  for (const auto& [name, value, largest] : {std::tuple{"tp", p.tensor, kMaxRanks},
                                             {"pp", p.pipeline, kMaxRanks},
                                             {"dp", p.data, kMaxRanks},
                                             {"cp", p.context, kMaxRanks},
                                             {"ep", p.expert, kMaxRanks},
                                             {"microbatch size", p.microbatch_size, kLargestBatch},
                                             {"global batch size", p.global_batch_size, kLargestBatch}}) {
    if (value >= 1 && value <= largest) continue;
    return make_error(ErrorCode::bad_argument, std::string(name) + " is out of range",
                      {.found = std::to_string(value), .expected = "1 to " + std::to_string(largest)});
  }
  constexpr std::int64_t kLongest = std::int64_t{1} << 30;
  if (p.sequence >= 0 && p.sequence <= kLongest) return {};
  return make_error(
      ErrorCode::bad_argument, "the sequence length is out of range",
      {.found = std::to_string(p.sequence), .expected = "0 (the model's) to " + std::to_string(kLongest)});
}

/// A rank has whole heads of keys and values: some of them, or one that other ranks have, too.
/// Source: Megatron-Core, num_query_groups of TransformerConfig.
Expected<void> check_key_heads(const Parallelism& p, const ModelDescription& model) {
  if (model.kv_lora > 0 || model.kv_heads % p.tensor == 0 || p.tensor % model.kv_heads == 0) return {};
  const std::string tensor = std::to_string(p.tensor);
  return make_error(
      ErrorCode::bad_argument, "the heads of keys and values must be a multiple or a divisor of tp",
      {.found = std::to_string(model.kv_heads), .expected = "a multiple or a divisor of " + tensor});
}

}  // namespace

int ClusterDescription::job_domain() const {
  if (node.nvlink_domain <= node.gpus) return node.nvlink_domain;
  int whole = std::min(nodes, node.nvlink_domain / node.gpus);
  while (nodes % whole != 0) --whole;
  return whole * node.gpus;
}

std::string ClusterDescription::domains_text() const {
  const bool takes_parts = gpu_count() > node.nvlink_domain && node.nvlink_domain > node.gpus;
  if (!takes_parts || job_domain() + node.gpus > node.nvlink_domain) return {};
  return "NVLink domains of " + std::to_string(job_domain()) + " GPUs: " + std::to_string(nodes) +
         " nodes do not divide evenly into larger ones";
}

Expected<ClusterDescription> cluster_from_name(std::string_view name, int nodes) {
  for (const NodeDescription& node : node_presets()) {
    if (node.name != name) continue;
    if (nodes < 1 || nodes > kMaxNodes) {
      return make_error(ErrorCode::bad_argument, "the number of nodes is out of range",
                        {.found = std::to_string(nodes), .expected = "1 to " + std::to_string(kMaxNodes)});
    }
    const auto gpus = gpu_presets();
    const auto gpu = std::ranges::find_if(gpus, [&](const auto& g) { return g.name == node.gpu; });
    PPSIM_CHECK(gpu != gpus.end(), "a node preset names an unknown GPU");
    return ClusterDescription{node, *gpu, nodes};
  }
  return tl::unexpected(unknown_name("unknown cluster", name, names_in(node_presets())));
}

std::ostream& operator<<(std::ostream& out, const Parallelism& p) {
  out << "TP" << p.tensor << " PP" << p.pipeline << " DP" << p.data;
  if (p.context > 1) out << " CP" << p.context;
  if (p.expert > 1) out << " EP" << p.expert;
  return out << ", microbatch " << p.microbatch_size << ", global batch " << p.global_batch_size;
}

Expected<void> check_parallelism(const Parallelism& p, const ModelDescription& model,
                                 const ClusterDescription& cluster) {
  PPSIM_RETURN_IF_ERROR(check_positive(p));
  const std::int64_t gpus = std::int64_t{p.tensor} * p.pipeline * p.data * p.context;
  if (gpus != cluster.gpu_count()) {
    return make_error(ErrorCode::bad_argument, "tp x pp x dp x cp must be the number of GPUs of the cluster",
                      {.found = std::to_string(gpus),
                       .expected = std::to_string(cluster.gpu_count()) + ", or another number of nodes"});
  }
  const std::int64_t sequence = p.sequence > 0 ? p.sequence : model.sequence;
  for (const auto& good :
       {divides("the number of heads", model.heads, "tp", p.tensor),
        divides("the global batch", p.global_batch_size, "dp x microbatch size",
                std::int64_t{p.data} * p.microbatch_size),
        divides("the sequence length", sequence, "tp x cp", std::int64_t{p.tensor} * p.context),
        divides("tp x cp x dp", std::int64_t{p.tensor} * p.context * p.data, "ep", p.expert)}) {
    if (!good) return good;
  }
  if (auto good = check_key_heads(p, model); !good) return good;
  if (p.expert > 1) return divides("the number of experts", model.experts, "ep", p.expert);
  return {};
}

}  // namespace ppsim::workload

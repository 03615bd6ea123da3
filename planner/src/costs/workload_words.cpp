#include "ppsim/planner/costs/workload_words.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

Expected<DataType> dtype_from_name(const std::string& name) {
  if (name == "bf16") return DataType::bf16;
  if (name == "fp8" || name == "mxfp8") return DataType::fp8;
  if (name == "nvfp4") return DataType::nvfp4;
  return make_error(ErrorCode::bad_argument, "unknown dtype",
                    {.found = name, .expected = "bf16, fp8, mxfp8 or nvfp4"});
}

Expected<RankOrder> rank_order_from_name(const std::string& name) {
  if (name == "tp-cp-dp-pp") return RankOrder::tp_cp_dp_pp;
  if (name == "tp-cp-pp-dp") return RankOrder::tp_cp_pp_dp;
  return make_error(ErrorCode::bad_argument, "unknown rank order",
                    {.found = name, .expected = "tp-cp-dp-pp or tp-cp-pp-dp"});
}

Expected<std::variant<LayoutRule, PipelineLayout>> layout_from_text(const std::string& text) {
  if (text == "even") return LayoutRule::even;
  if (text == "auto") return LayoutRule::balanced;
  return parse_layout(text);
}

bool is_file_name(const std::string& text) {
  return suffix_of(text) == ".json" || text.find('/') != std::string::npos;
}

/// A model as a file describes it, `FILE` or `FILE:layers=4,...`.
struct ModelFile {
  std::string file, fields;
};

/// A colon within a file's name starts no fields where no `=` follows.
std::optional<ModelFile> model_file_named(const std::string& argument) {
  const std::size_t slash = argument.rfind('/');
  const std::size_t colon = argument.find(':', slash == std::string::npos ? 0 : slash);
  ModelFile named{argument, {}};
  if (colon != std::string::npos && suffix_of(argument) != ".json") {
    ModelFile parts{argument.substr(0, colon), argument.substr(colon + 1)};
    if (suffix_of(parts.file) == ".json" || parts.fields.find('=') != std::string::npos)
      named = std::move(parts);
  }
  if (!is_file_name(named.file)) return std::nullopt;
  return named;
}

Expected<ModelDescription> read_model(const std::string& argument) {
  const auto named = model_file_named(argument);
  if (!named) return model_from_name(argument);
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(named->file));
  PPSIM_ASSIGN_OR_RETURN(const auto model, model_from_config_json(text, named->file));
  return with_fields(model, named->fields);
}

/// A topology as NCCL writes it, `FILE.xml` or `FILE.xml:GPU`.
struct TopologyName {
  std::string file, gpu;
};

std::optional<TopologyName> topology_named(const std::string& argument) {
  const std::size_t end = argument.find(".xml");
  if (end != std::string::npos && argument.substr(end).starts_with(".xml:"))
    return TopologyName{argument.substr(0, end + 4), argument.substr(end + 5)};
  if (suffix_of(argument) != ".xml") return std::nullopt;
  return TopologyName{argument, {}};
}

Expected<ClusterDescription> read_cluster(const std::string& argument, int nodes) {
  if (const auto topology = topology_named(argument)) {
    PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(topology->file));
    return cluster_from_topology(text, topology->file, nodes, topology->gpu);
  }
  if (!is_file_name(argument)) return cluster_from_name(argument, nodes);
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(argument));
  return cluster_from_json(text, argument, nodes);
}

}  // namespace

Expected<RecomputeWords> recompute_from_words(std::string_view text) {
  if (text == "everything_saveable") return RecomputeWords{};
  if (const auto policy = checkpoint_policy_from_name(text))
    return RecomputeWords{Recompute::selective, policy};
  auto stages = recompute_from_text(text);
  if (stages) return RecomputeWords{*std::move(stages), std::nullopt};
  Error error = stages.error();
  error.message += suggestion(text, names_in(checkpoint_policies()));
  error.place.expected += ", or with --model a checkpoint policy such as minimal";
  return tl::unexpected(error);
}

Expected<SoftwareStack> stack_from_argument(const std::string& argument) {
  if (!is_file_name(argument)) return stack_from_name(argument);
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(argument));
  return stack_from_json(text, argument);
}

std::vector<std::string> files_named(const WorkloadWords& words) {
  std::vector<std::string> files;
  if (const auto model = model_file_named(words.model)) files.push_back(model->file);
  for (const std::string& text : {words.cluster, words.stack}) {
    if (const auto topology = topology_named(text)) {
      files.push_back(topology->file);
    } else if (is_file_name(text)) {
      files.push_back(text);
    }
  }
  if (!words.calibration.empty()) files.push_back(words.calibration);
  return files;
}

Expected<Workload> workload_to_search(const WorkloadWords& words) {
  Workload result;
  result.parallelism = words.parallelism;
  PPSIM_ASSIGN_OR_RETURN(result.model, read_model(words.model));
  PPSIM_ASSIGN_OR_RETURN(result.cluster, read_cluster(words.cluster, words.nodes));
  PPSIM_ASSIGN_OR_RETURN(result.parallelism.dtype, dtype_from_name(words.dtype));
  PPSIM_ASSIGN_OR_RETURN(result.parallelism.rank_order, rank_order_from_name(words.rank_order));
  PPSIM_ASSIGN_OR_RETURN(result.layout, layout_from_text(words.layout));
  PPSIM_ASSIGN_OR_RETURN(result.stack, stack_from_argument(words.stack));
  if (words.checkpoints) result.stack.checkpoints = words.checkpoints;
  result.whole_step = words.whole_step;
  if (words.calibration.empty()) return result;
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(words.calibration));
  PPSIM_ASSIGN_OR_RETURN(auto calibration, calibration_from_json(text, words.calibration));
  return calibrated(std::move(result), std::move(calibration));
}

Expected<Workload> workload_from_words(const WorkloadWords& words) {
  auto result = workload_to_search(words);
  if (!result) return result;
  PPSIM_RETURN_IF_ERROR(check_parallelism(result->parallelism, result->model, result->cluster));
  return result;
}

}  // namespace ppsim::planner

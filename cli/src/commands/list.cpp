#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>

#include "command.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/schedule_sheet.hpp"
#include "ppsim/verifier/property.hpp"
#include "ppsim/workload/job.hpp"
#include "ppsim/workload/stack.hpp"

namespace ppsim::cli {
namespace {

struct Listing {
  std::vector<std::string> header;
  std::vector<std::vector<Json>> rows;
  std::size_t columns = 7;  ///< that the table shows; --json has all
};

Json settings_json(const ScheduleInfo& info) {
  Json settings = Json::array();
  for (const SettingInfo& setting : info.settings) {
    settings.push_back({{"name", setting.name}, {"meaning", setting.meaning}, {"default", setting.fallback}});
  }
  return settings;
}

Listing schedule_listing() {
  Listing listing{{"name", "summary", "bubble", "peak_activations", "constraints", "placement", "paper",
                   "chunks", "most_chunks", "slices", "settings"},
                  {},
                  3};
  for (const ScheduleInfo& info : registered_schedules()) {
    listing.rows.push_back({info.name, info.summary, info.forms.bubble, info.forms.peak, info.constraints,
                            info.placement, info.paper, info.default_chunks, info.max_chunks, info.has_slices,
                            settings_json(info)});
  }
  for (const PluginOffer& own : plugin_schedules()) {
    listing.rows.push_back({own.name, own.summary, "", "", "", "", own.library, 1, 1, false, Json::array()});
  }
  return listing;
}

Listing cost_model_listing() {
  Listing listing{{"name", "summary", "library"}, {}};
  for (const PluginOffer& own : plugin_cost_models())
    listing.rows.push_back({own.name, own.summary, own.library});
  return listing;
}

/// Whether --model can price an architecture.
std::string_view costs_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::decoder:
    case Architecture::moe:
    case Architecture::moe_mla:
      return "analytic";
    case Architecture::encoder_decoder:
    case Architecture::encoder:
    case Architecture::vit:
      return "only --costs";
  }
  return "";
}

Listing model_listing() {
  Listing listing{
      {"name", "architecture", "layers", "hidden", "heads", "sequence", "parameters", "costs"}, {}, 8};
  for (const ModelDescription& model : model_presets()) {
    listing.rows.push_back({model.name, std::string(architecture_name(model.architecture)), model.layers,
                            model.hidden, model.heads, model.sequence, parameter_count(model),
                            costs_of(model.architecture)});
  }
  return listing;
}

Listing cluster_listing() {
  Listing listing{{"name", "gpu", "gpus_per_node", "nvlink_domain", "node_gbytes_per_s"}, {}};
  for (const NodeDescription& node : node_presets()) {
    const Json rate = *node.node_gbytes;
    listing.rows.push_back({node.name, node.gpu, node.gpus, node.nvlink_domain, rate});
  }
  return listing;
}

Listing stack_listing() {
  Listing listing{{"name",
                   "attention",
                   "sequence_parallel",
                   "overlap_tensor",
                   "overlap_data",
                   "overlap_pipeline",
                   "gradient_bytes",
                   "moment_bytes",
                   "transfer_channels",
                   "sharded_optimizer",
                   "fused_weight_gradient",
                   "fused_cross_entropy",
                   "graphs",
                   "graphed_experts",
                   "split_experts",
                   "overlap_experts",
                   "fused_experts",
                   "compiled",
                   "quantised_attention",
                   "quantised_gates",
                   "reruns_layers",
                   "weights",
                   "selective",
                   "context",
                   "inputs"},
                  {}};
  for (const SoftwareStack& stack : stack_presets()) {
    const workload::StackWords words = workload::words_of(stack);
    listing.rows.push_back({stack.name,
                            words.attention,
                            stack.sequence_parallel,
                            stack.overlap_tensor,
                            stack.overlap_data,
                            stack.overlap_pipeline,
                            stack.gradient_bytes,
                            stack.moment_bytes,
                            stack.transfer_channels,
                            stack.sharded_optimizer,
                            stack.fused_weight_gradient,
                            stack.fused_cross_entropy,
                            stack.graphs,
                            stack.graphed_experts,
                            stack.split_experts,
                            stack.overlap_experts,
                            stack.fused_experts,
                            stack.compiled,
                            stack.quantised_attention,
                            stack.quantised_gates,
                            stack.reruns_layers,
                            words.weights,
                            words.selective,
                            words.context,
                            words.inputs});
  }
  return listing;
}

Listing job_listing() {
  Listing listing{{"name", "model", "cluster", "nodes", "parallelism", "schedule", "source"}, {}};
  for (const TrainingJob& job : job_presets()) {
    listing.rows.push_back(
        {job.name, job.model, job.cluster, job.nodes, as_text(job.parallelism), job.schedule, job.source});
  }
  return listing;
}

Listing property_listing() {
  Listing listing{{"name", "summary"}, {}};
  for (const PropertyInfo& info : property_registry())
    listing.rows.push_back({std::string(info.name), std::string(info.summary)});
  return listing;
}

Listing policy_listing() {
  return {{"name", "summary"},
          {{"per-rank", "one communicator for all ranks: every transfer of a rank in one order"},
           {"per-pair", "one for each pair of ranks, both directions in one order"},
           {"per-edge", "one for each directed pair of ranks (default)"},
           {"per-stage-edge", "one for each producer and consumer stage"}}};
}

Listing transport_listing() {
  Listing listing{{"name", "summary"}, {}};
  for (const Transport& transport : transports())
    listing.rows.push_back({std::string(transport.name), std::string(transport.description)});
  return listing;
}

constexpr std::array<std::pair<std::string_view, Listing (*)()>, 9> kListings = {
    {{"schedules", schedule_listing},
     {"models", model_listing},
     {"clusters", cluster_listing},
     {"stacks", stack_listing},
     {"jobs", job_listing},
     {"properties", property_listing},
     {"policies", policy_listing},
     {"transports", transport_listing},
     {"cost-models", cost_model_listing}}};

Error unknown_listing(const std::string& what) {
  return unknown_name("unknown list", what, keys_in(kListings));
}

/// DIR/schedules.md and a picture for each schedule.
Expected<int> write_docs(const std::string& directory, const Output& output) {
  std::error_code failed;
  std::filesystem::create_directories(directory + "/schedules", failed);
  std::vector<ScheduleSheet> sheets;
  for (const ScheduleInfo& info : registered_schedules()) {
    PPSIM_ASSIGN_OR_RETURN(auto sheet, schedule_sheet(info));
    const std::string picture = directory + "/schedules/" + std::string(info.name) + ".svg";
    PPSIM_RETURN_IF_ERROR(write_text_file(picture, sheet.picture));
    sheets.push_back(std::move(sheet));
  }
  const std::string page = directory + "/schedules.md";
  PPSIM_RETURN_IF_ERROR(write_text_file(page, schedule_page(sheets)));
  if (output.json) output.print({{"file", page}, {"pictures", sheets.size()}});
  return kDone;
}

Expected<int> run(const std::string& what, const std::string& docs, const Output& output) {
  if (!docs.empty() && what != "schedules") {
    return make_error(ErrorCode::bad_argument, "--docs writes the page of schedules",
                      {.found = what, .expected = "list schedules --docs DIR"});
  }
  if (!docs.empty()) return write_docs(docs, output);
  const auto chosen = std::ranges::find(kListings, what, [](const auto& entry) { return entry.first; });
  if (chosen == kListings.end()) return tl::unexpected(unknown_listing(what));
  const Listing listing = chosen->second();
  if (!output.json) {
    TextTable rows = {listing.header};
    for (const std::vector<Json>& row : listing.rows) {
      std::vector<std::string> cells;
      for (const Json& cell : row) {
        const auto* text = std::get_if<std::string>(&cell.value());
        cells.push_back(text != nullptr ? *text : cell.dump());
      }
      rows.push_back(std::move(cells));
    }
    for (auto& row : rows) row.resize(std::min(row.size(), listing.columns));
    std::cout << table_text(rows, Align::left);
    return kDone;
  }
  Json items = Json::array();
  for (const auto& row : listing.rows) {
    Json item;
    for (std::size_t c = 0; c < row.size(); ++c) item[listing.header[c]] = row[c];
    items.push_back(std::move(item));
  }
  output.print({{what, std::move(items)}});
  return kDone;
}

}  // namespace

void add_list(Command& program) {
  auto what = std::make_shared<std::string>();
  auto docs = std::make_shared<std::string>();
  Command command = program.add_subcommand(
      "list", "what there is: schedules, models, clusters, stacks, jobs, properties, policies, transports");
  command
      .add_option("WHAT", *what,
                  "schedules, models, clusters, stacks, jobs, properties, policies, transports, or "
                  "cost-models of --plugin")
      .required();
  command.add_option("--docs", *docs,
                     "write the page and the pictures of schedules to DIR and DIR/schedules");
  command.runs([what, docs](const Output& output) { return run(*what, *docs, output); });
}

}  // namespace ppsim::cli

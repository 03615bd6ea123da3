
#include "frameworks.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::planner::exporting {
namespace {

constexpr const char* kCsv = "schedule.csv";

/// The class that puts the stages on the ranks as the rows have them.
Expected<std::string> placement_class(const Pipeline& pipeline) {
  const int ranks = pipeline.ranks();
  const int chunks = chunks_of(pipeline);
  bool loops = chunks > 0;
  bool is_v = chunks == 2;
  for (int s = 0; s < pipeline.stages(); ++s) {
    const int rank = pipeline.rank_of(StageId(s)).value();
    loops = loops && rank == s % ranks;
    is_v = is_v && rank == (s < ranks ? s : 2 * ranks - 1 - s);
  }
  if (loops && chunks == 1) return "1F1B";
  if (loops) return "Interleaved1F1B";
  if (is_v) return "ZBVZeroBubble";
  return refusal("torchtitan has no placement of stages like this",
                 "stage s on rank s mod P, or two stages a rank in a V");
}

bool splits_backwards(const Schedule& schedule) {
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions()) {
        if (action.kind == OpKind::backward_weight) return true;
      }
    }
  }
  return false;
}

/// The first stage has the embedding, the last one the loss.
PipelineLayout layout_of(const std::vector<int>& layers) {
  PipelineLayout layout;
  for (const int count : layers) layout.stages.push_back({.layers = count});
  layout.stages.front().embedding = true;
  layout.stages.back().loss = true;
  return layout;
}

/// A key of ParallelismConfig and its value, as Python and TOML write it.
using Settings = std::vector<std::pair<std::string, std::string>>;

Settings settings_of(const Pipeline& pipeline, const std::string& schedule_class,
                     const std::vector<int>& layers) {
  Settings settings = {{"pipeline_parallel_degree", std::to_string(pipeline.ranks())},
                       {"pipeline_parallel_schedule", "\"" + schedule_class + "\""},
                       {"pipeline_parallel_schedule_csv", std::string("\"") + kCsv + "\""}};
  if (!layers.empty())
    settings.emplace_back("module_fqns_per_model_part", torchtitan_modules(layout_of(layers)));
  return settings;
}

std::string toml_text(const Settings& settings) {
  std::string text = "[parallelism]\n";
  for (const auto& [key, value] : settings) text += key + " = " + value + "\n";
  return text;
}

std::string python_text(const Settings& settings) {
  std::string text = "import pathlib\n\n\ndef configure(config):\n    parallelism = config.parallelism\n";
  for (const auto& [key, value] : settings) {
    const bool is_path = key == "pipeline_parallel_schedule_csv";
    text += "    parallelism." + key + " = " +
            (is_path ? "str(pathlib.Path(__file__).with_name(" + value + "))" : value) + "\n";
  }
  return text + "    return config\n";
}

std::vector<std::string> notes_of(const Schedule& schedule, const std::string& schedule_class) {
  std::vector<std::string> notes = {
      "training.local_batch_size / parallelism.pipeline_parallel_microbatch_size has to be " +
      std::to_string(schedule.pipeline().microbatches()) + "."};
  if (schedule_class == "ZBVZeroBubble")
    notes.emplace_back(
        "pipeline_parallel_schedule = \"ZBVZeroBubble\" puts the stages in a V; the order is that of the "
        "CSV.");
  if (splits_backwards(schedule))
    notes.emplace_back(
        "Leave compile off: PyTorch's split backward (I and W) does not go with torch.compile of the "
        "stages.");
  return notes;
}

}  // namespace

Expected<Export> for_torchtitan(const Schedule& schedule, const std::vector<int>& layers) {
  const Pipeline& pipeline = schedule.pipeline();
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_named("torch-2.15"));
  PPSIM_ASSIGN_OR_RETURN(const auto csv, text_for(target, schedule, kCsv));
  PPSIM_ASSIGN_OR_RETURN(const auto schedule_class, placement_class(pipeline));
  if (layers.empty() && chunks_of(pipeline) > 2)
    return refusal("torchtitan makes two stages a rank unless it is told the modules of each",
                   "--layers with the layers of every stage");
  const Settings settings = settings_of(pipeline, schedule_class, layers);
  return Export{{{kCsv, csv},
                 {"torchtitan.toml", toml_text(settings)},
                 {"torchtitan_parallelism.py", python_text(settings)}},
                notes_of(schedule, schedule_class)};
}

}  // namespace ppsim::planner::exporting

std::string ppsim::planner::torchtitan_modules(const PipelineLayout& layout) {
  std::string text = "[";
  std::int64_t layer = 0;
  for (const StageContents& stage : layout.stages) {
    std::vector<std::string> names;
    if (stage.embedding) names.emplace_back("tok_embeddings");
    for (std::int64_t i = 0; i < stage.layers; ++i) names.push_back("layers." + std::to_string(layer++));
    if (stage.loss) names.insert(names.end(), {"norm", "lm_head"});
    text += text == "[" ? "\n" : ",\n";
    text += "    [";
    for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
    text += "]";
  }
  return text + "\n]";
}

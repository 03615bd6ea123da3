#include "pipeline.hpp"

namespace ppsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Clears one member of `spec` where its default says the same.
template <class Member>
void drop_default(PipelineSpec& spec, Member PipelineSpec::*member, const Pipeline& pipeline) {
  PipelineSpec shorter = spec;
  shorter.*member = Member();
  const auto made = Pipeline::make(shorter);
  if (made && *made == pipeline) spec = std::move(shorter);
}

PipelineSpec without_defaults(const Pipeline& pipeline) {
  PipelineSpec spec = pipeline.spec();
  drop_default(spec, &PipelineSpec::placement, pipeline);
  drop_default(spec, &PipelineSpec::edges, pipeline);
  drop_default(spec, &PipelineSpec::routes, pipeline);
  drop_default(spec, &PipelineSpec::route, pipeline);
  drop_default(spec, &PipelineSpec::blocks, pipeline);
  drop_default(spec, &PipelineSpec::update, pipeline);
  drop_default(spec, &PipelineSpec::version, pipeline);
  drop_default(spec, &PipelineSpec::lag, pipeline);
  return spec;
}

template <class Items, class ToJson>
void put_list(ordered_json& object, const char* key, const Items& items, ToJson to_json) {
  if (items.empty()) return;
  ordered_json& array = object[key] = ordered_json::array();
  for (const auto& item : items) array.push_back(to_json(item));
}

/// Reads the list under `key`, empty where it is absent.
template <class T, class FromJson>
std::vector<T> list_of(const json& object, const char* key, FromJson from_json) {
  std::vector<T> items;
  if (const auto found = object.find(key); found != object.end()) {
    for (const json& item : *found) items.push_back(from_json(item));
  }
  return items;
}

template <class Id>
std::vector<Id> ids_under(const json& object, const char* key) {
  return list_of<Id>(object, key, [](const json& item) { return Id(item.get<std::int32_t>()); });
}

StagePasses read_passes(const json& collective, const char* key) {
  const auto found = collective.find(key);
  if (found == collective.end()) return {};
  const bool forward = found->at("kind").get<std::string>() == info(OpKind::forward).text;
  return {forward ? OpKind::forward : OpKind::backward, read_ids<StageId>(found->at("stages"))};
}

Collective read_collective(const json& collective) {
  return {.name = collective.at("name").get<std::string>(),
          .members = read_ids<RankId>(collective.at("members")),
          .after = read_passes(collective, "after"),
          .before = read_passes(collective, "before"),
          .gradient_of = StageId(collective.value("gradient_of", -1)),
          .input_of = StageId(collective.value("input_of", -1))};
}

ordered_json collective_json(const Collective& collective) {
  ordered_json object = {{"name", collective.name}, {"members", ids_json(collective.members)}};
  const auto put_passes = [&](const char* key, const StagePasses& passes) {
    if (passes.stages.empty()) return;
    object[key] = {{"kind", info(passes.kind).text}, {"stages", ids_json(passes.stages)}};
  };
  put_passes("after", collective.after);
  put_passes("before", collective.before);
  if (collective.gradient_of.valid()) object["gradient_of"] = collective.gradient_of.value();
  if (collective.input_of.valid()) object["input_of"] = collective.input_of.value();
  return object;
}

StageEdge edge_of(const json& pair) {
  return {StageId(pair.at(0).get<int>()), StageId(pair.at(1).get<int>())};
}

ordered_json edge_json(const StageEdge& edge) {
  return ordered_json::array({edge.from.value(), edge.to.value()});
}

/// Blocks are lists of stages; a second list names those with a sum for every microbatch. Returns: its first
/// number that names no block.
std::optional<int> mark_reduced_each_microbatch(const json& object, PipelineSpec& spec) {
  for (const BlockId block : ids_under<BlockId>(object, "reduced_each_microbatch")) {
    if (block.index() >= spec.blocks.size()) return block.value();
    spec.blocks[block].reduced_each_microbatch = true;
  }
  return std::nullopt;
}

std::vector<BlockId> reduced_each_microbatch(const PipelineSpec& spec) {
  std::vector<BlockId> blocks;
  for (int b = 0; b < static_cast<int>(spec.blocks.size()); ++b) {
    if (spec.blocks[BlockId(b)].reduced_each_microbatch) blocks.emplace_back(b);
  }
  return blocks;
}

PipelineSpec read_spec(const json& object) {
  const auto number = [](const json& item) { return item.get<int>(); };
  PipelineSpec spec;
  spec.ranks = object.at("ranks").get<int>();
  spec.stages = object.at("stages").get<int>();
  spec.microbatches = object.at("microbatches").get<int>();
  spec.slices = object.value("slices", 1);
  spec.placement = IdVector<StageId, RankId>(ids_under<RankId>(object, "placement"));
  spec.edges = list_of<StageEdge>(object, "edges", edge_of);
  spec.side_edges = list_of<StageEdge>(object, "side_edges", edge_of);
  spec.routes = IdVector<RouteId, std::vector<StageId>>(
      list_of<std::vector<StageId>>(object, "routes", read_ids<StageId>));
  spec.route = IdVector<MicrobatchId, RouteId>(ids_under<RouteId>(object, "route"));
  spec.blocks = IdVector<BlockId, ParameterBlock>(list_of<ParameterBlock>(
      object, "blocks", [](const json& stages) { return ParameterBlock{read_ids<StageId>(stages)}; }));
  spec.update = IdVector<MicrobatchId, int>(list_of<int>(object, "update", number));
  spec.version = IdVector<MicrobatchId, int>(list_of<int>(object, "version", number));
  spec.lag = IdVector<StageId, int>(list_of<int>(object, "lag", number));
  spec.collectives =
      IdVector<CollectiveId, Collective>(list_of<Collective>(object, "collectives", read_collective));
  return spec;
}

}  // namespace

ordered_json pipeline_json(const Pipeline& pipeline) {
  const PipelineSpec spec = without_defaults(pipeline);
  const auto value_of = [](const auto& id) { return id.value(); };
  const auto same = [](int number) { return number; };
  ordered_json object = {{"ranks", spec.ranks}, {"stages", spec.stages}, {"microbatches", spec.microbatches}};
  if (spec.slices > 1) object["slices"] = spec.slices;
  put_list(object, "placement", spec.placement, value_of);
  put_list(object, "edges", spec.edges, edge_json);
  put_list(object, "side_edges", spec.side_edges, edge_json);
  put_list(object, "routes", spec.routes, ids_json<std::vector<StageId>>);
  put_list(object, "route", spec.route, value_of);
  put_list(object, "blocks", spec.blocks, [](const ParameterBlock& block) { return ids_json(block.stages); });
  put_list(object, "reduced_each_microbatch", reduced_each_microbatch(spec), value_of);
  put_list(object, "update", spec.update, same);
  put_list(object, "version", spec.version, same);
  put_list(object, "lag", spec.lag, same);
  put_list(object, "collectives", spec.collectives, collective_json);
  return object;
}

Expected<Pipeline> read_pipeline(const JsonFile& file) {
  const json& object = file.root().at("pipeline");
  PipelineSpec spec = read_spec(object);
  if (const auto wrong = mark_reduced_each_microbatch(object, spec)) {
    return file.error_at({"pipeline", "reduced_each_microbatch"}, "no such block", std::to_string(*wrong),
                         "the number of a list in \"blocks\"");
  }
  auto pipeline = Pipeline::make(std::move(spec));
  if (!pipeline) return file.error_at({"pipeline"}, pipeline.error());
  return pipeline;
}

}  // namespace ppsim

#include "ppsim/planner/synthesis.hpp"

#include <algorithm>
#include <span>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {
namespace {

constexpr int kMaxStages = 100'000;
constexpr int kMaxLimits = 24;  // settings of memory that are tried where the limit is in bytes

/// The settings by which a schedule keeps to a limit of activations that live until their W.
std::map<std::string, std::string> settings_within(const ScheduleInfo& info, int limit) {
  std::map<std::string, std::string> settings;
  for (const SettingInfo& setting : info.settings) {
    if (setting.name == "memory_limit") settings["memory_limit"] = std::to_string(limit);
    if (setting.name == "weight_share") settings["weight_share"] = "100";
  }
  return settings;
}

/// Limits of activations to try: the one there is, or some between one microbatch and all of 1F1B and a
/// little.
std::vector<int> limits_of(const SynthesisRequest& request, int chunks) {
  if (!request.bytes) return {request.activation_limit};
  const int most = 2 * chunks * request.ranks + 2;
  std::vector<int> limits;
  for (int limit = chunks; limit <= most; limit += std::max(1, most / kMaxLimits)) limits.push_back(limit);
  return limits;
}

void add_action(const Action& action, BackwardForm form, ScheduleBuilder& builder) {
  if (action.kind != OpKind::backward || form == BackwardForm::fused) {
    builder.add(action.kind, action.stage(), action.mb());
    return;
  }
  builder.add(OpKind::backward_input, action.stage(), action.mb());
  builder.add(OpKind::backward_weight, action.stage(), action.mb());
}

/// The same order one action after the other, with I and W for each B where the form has them.
Expected<Schedule> taken_apart(const Schedule& schedule, BackwardForm form) {
  ScheduleBuilder builder(schedule.name(), schedule.pipeline());
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions()) add_action(action, form, builder);
    }
  }
  return std::move(builder).build();
}

}  // namespace

std::vector<Schedule> known_schedules(const SynthesisRequest& request) {
  std::vector<Schedule> known;
  const auto pipeline = synthesis_pipeline(request);
  if (!pipeline || pipeline->stages() % request.ranks != 0) return known;
  const int chunks = pipeline->stages() / request.ranks;
  for (const ScheduleInfo& info : registered_schedules()) {
    const bool fused = request.backward == BackwardForm::fused;
    if (info.forward_only || info.min_chunks > chunks || info.max_chunks < chunks) continue;
    if (fused && info.splits_backward) continue;
    for (const int limit : limits_of(request, chunks)) {
      ScheduleParameters parameters{.ranks = request.ranks,
                                    .microbatches = request.microbatches,
                                    .settings = settings_within(info, limit),
                                    .costs = request.costs};
      if (info.max_chunks > 1) parameters.chunks = chunks;
      const auto schedule = generate(info.name, parameters);
      if (!schedule || schedule->pipeline() != *pipeline) break;
      auto apart = taken_apart(*schedule, request.backward);
      if (apart && (request.bytes || peak_live_microbatches(*apart) <= request.activation_limit))
        known.push_back(*std::move(apart));
      if (!parameters.settings.contains("memory_limit")) break;
    }
  }
  return known;
}

Expected<Schedule> any_schedule(const SynthesisRequest& request) {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, synthesis_pipeline(request));
  const auto stages = static_cast<int>(placement_of(request).size());
  ScheduleBuilder builder("any", std::move(pipeline));
  const auto add = [&](OpKind kind, int stage) {
    for (int i = 0; i < request.microbatches; ++i) builder.add(kind, StageId(stage), MicrobatchId(i));
  };
  const std::vector<OpKind> phases = phases_of(request.backward);
  for (int s = 0; s < stages; ++s) add(phases.front(), s);
  for (int s = stages; s-- > 0;) {
    for (const OpKind kind : std::span(phases).subspan(1)) add(kind, s);
  }
  return std::move(builder).build();
}

namespace {

Error wrong_placement(const std::string& found) {
  return Error{ErrorCode::bad_argument,
               "cannot place the stages",
               {.found = found, .expected = "loop, v, free, or the rank of each stage, such as 0,1,1,0"}};
}

Expected<std::vector<RankId>> listed_ranks(const std::string& text) {
  std::vector<RankId> placement;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto rank = parse_number<int>(std::string_view(text).substr(begin, end - begin));
    if (!rank) return tl::unexpected(wrong_placement(text));
    placement.emplace_back(*rank);
    begin = end + 1;
  }
  return placement;
}

}  // namespace

Expected<std::vector<RankId>> parse_placement(const PlacementWords& words) {
  const bool named = words.placement.empty() || words.placement == "loop" || words.placement == "v";
  if (!named) {
    if (!words.chunks) return listed_ranks(words.placement);
    return make_error(
        ErrorCode::bad_argument, "a placement that lists ranks has the number of chunks in itself",
        {.found = "chunks " + std::to_string(*words.chunks) + " and placement " + words.placement,
         .expected = "one of both"});
  }
  const int chunks = words.chunks.value_or(words.placement.empty() ? 1 : 2);
  if (chunks < 1 || (words.ranks > 0 && chunks > kMaxStages / words.ranks)) {
    return make_error(ErrorCode::bad_argument, "cannot place the stages",
                      {.found = std::to_string(chunks) + " chunks on each rank",
                       .expected = "1 or more, and at most " + std::to_string(kMaxStages) + " stages"});
  }
  std::vector<RankId> placement;
  if (chunks == 1) return placement;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const bool back = words.placement == "v" && chunk % 2 != 0;
    for (int i = 0; i < words.ranks; ++i) placement.emplace_back(back ? words.ranks - 1 - i : i);
  }
  return placement;
}

Expected<SynthesisAnswer> synthesize_placed(const PlacementWords& words, SynthesisRequest request,
                                            const BindPlacement& bind) {
  const auto bind_known = [&](SynthesisRequest& placed) -> Expected<void> {
    PPSIM_RETURN_IF_ERROR(bind(placed));
    if (!placed.kept_order) placed.known = known_schedules(placed);
    return {};
  };
  if (words.placement != "free") {
    PPSIM_ASSIGN_OR_RETURN(request.placement, parse_placement(words));
    PPSIM_RETURN_IF_ERROR(check_counts(request));
    PPSIM_RETURN_IF_ERROR(bind_known(request));
    return synthesize(request);
  }
  FreePlacement free{.request = std::move(request), .chunks = words.chunks.value_or(2)};
  for (const char* shape : {"v", "loop"}) {
    PPSIM_ASSIGN_OR_RETURN(auto placement, parse_placement({shape, free.chunks, words.ranks}));
    if (!placement.empty()) free.first.push_back(std::move(placement));
  }
  if (!free.first.empty()) {  // stages next to each other on a rank: the best where sends hold up computation
    std::vector<RankId> blocks;
    for (int s = 0; s < free.chunks * words.ranks; ++s) blocks.emplace_back(s / free.chunks);
    free.first.push_back(std::move(blocks));
  }
  PPSIM_RETURN_IF_ERROR(check_counts(free));
  free.bind = [&](SynthesisRequest& placed) {
    const bool has_known = std::ranges::find(free.first, placed.placement) != free.first.end();
    return has_known ? bind_known(placed) : bind(placed);
  };
  return synthesize(free);
}

Expected<Pipeline> synthesis_pipeline(const SynthesisRequest& request) {
  std::vector<RankId> placement = placement_of(request);
  const auto stages = static_cast<int>(placement.size());
  return make_chain(request.ranks, stages, request.microbatches, std::move(placement));
}

Expected<void> bind_request(CostBinding bound, const LimitWords& limit, SynthesisRequest& request) {
  request.costs = std::move(bound.tables.costs);
  if (limit.activations && !limit.bytes.empty()) {
    return make_error(ErrorCode::bad_argument, "the memory is limited in activations or in bytes",
                      {.found = "both", .expected = "one of them"});
  }
  if (limit.activations) {
    request.activation_limit = *limit.activations;
    return {};
  }
  std::optional<Bytes> bytes = bound.memory_limit;
  if (!limit.bytes.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto given, parse_size(limit.bytes));
    bytes = given;
  }
  if (!bytes) {
    return make_error(
        ErrorCode::bad_argument, "nothing limits the memory",
        {.found = "no limit",
         .expected =
             "a limit of activations or of bytes (--activation-limit, --memory-limit), or a model on a GPU"});
  }
  if (!bound.has_sizes) {
    return make_error(
        ErrorCode::bad_argument, "a limit in bytes needs sizes",
        {.found = "none",
         .expected = "unit costs with A, such as F=1,B=2,A=1e9, a table with sizes, or a model"});
  }
  request.bytes = ByteLimit{std::move(bound.tables.sizes), *bytes};
  return {};
}

}  // namespace ppsim::planner

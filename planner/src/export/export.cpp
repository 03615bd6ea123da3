#include "ppsim/planner/export.hpp"

#include <algorithm>
#include <array>

#include "frameworks.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"torchtitan", "megatron", "maxtext"};

Expected<void> check_layers(const Schedule& schedule, const std::vector<int>& layers) {
  const int stages = schedule.pipeline().stages();
  if (layers.empty() || layers.size() == as_size(stages)) return {};
  return make_error(ErrorCode::bad_argument, "--layers has one number for each stage",
                    {.found = std::to_string(layers.size()) + " numbers",
                     .expected = std::to_string(stages) + " of them, in the order of the stages"});
}

}  // namespace

Expected<Framework> framework_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found != kNames.end()) return static_cast<Framework>(found - kNames.begin());
  return tl::unexpected(unknown_name("unknown framework", name, kNames, ""));
}

bool exporting::has_rows_of(const Schedule& schedule, const std::string& name, int chunks) {
  const Pipeline& pipeline = schedule.pipeline();
  const auto other =
      generate(name, {.ranks = pipeline.ranks(), .microbatches = pipeline.microbatches(), .chunks = chunks});
  if (!other || other->pipeline() != pipeline) return false;
  const auto is_idle = [](const Cell& cell) { return cell.idle(); };
  for (const RankId rank : pipeline.rank_ids()) {
    std::vector<Cell> rows[2];
    std::ranges::remove_copy_if(schedule.row(rank), std::back_inserter(rows[0]), is_idle);
    std::ranges::remove_copy_if(other->row(rank), std::back_inserter(rows[1]), is_idle);
    if (rows[0] != rows[1]) return false;
  }
  return true;
}

tl::unexpected<Error> exporting::refusal(const std::string& why, const std::string& expected,
                                         const std::string& found) {
  return make_error(ErrorCode::refused, why, {.found = found, .expected = expected});
}

int exporting::chunks_of(const Pipeline& pipeline) {
  return pipeline.stages() % pipeline.ranks() == 0 ? pipeline.stages() / pipeline.ranks() : 0;
}

Expected<Export> export_for(Framework framework, const Schedule& schedule, const std::vector<int>& layers) {
  PPSIM_RETURN_IF_ERROR(check_layers(schedule, layers));
  switch (framework) {
    case Framework::torchtitan:
      return exporting::for_torchtitan(schedule, layers);
    case Framework::megatron:
      return exporting::for_megatron(schedule, layers);
    case Framework::maxtext:
      return exporting::for_maxtext(schedule, layers);
  }
  PPSIM_CHECK(false, "unknown framework");
}

}  // namespace ppsim::planner

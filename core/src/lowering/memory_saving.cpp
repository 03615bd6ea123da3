#include "ppsim/core/lowering/memory_saving.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "selective", "full"};
constexpr std::string_view kStages = "stages=";

std::optional<Recompute> recompute_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kRecomputeNames, name);
  if (found == kRecomputeNames.end()) return std::nullopt;
  return static_cast<Recompute>(found - kRecomputeNames.begin());
}

/// The items of "stages=a,b,c".
std::vector<std::string_view> stage_items(std::string_view text) {
  std::vector<std::string_view> items;
  text.remove_prefix(kStages.size());
  for (std::size_t begin = 0; begin <= text.size(); begin += items.back().size() + 1) {
    items.push_back(text.substr(begin, text.find(',', begin) - begin));
  }
  return items;
}

tl::unexpected<Error> unknown_recompute(std::string_view found) {
  return make_error(ErrorCode::bad_argument, "unknown recompute",
                    {.found = std::string(found),
                     .expected = "none, selective, full, or stages=0,2:selective with each stage once"});
}

tl::unexpected<Error> unknown_offload(std::string_view found) {
  return make_error(ErrorCode::bad_argument, "unknown offload",
                    {.found = std::string(found), .expected = "none, all, half, 1% to 100%, or stages=0,1"});
}

}  // namespace

std::string_view recompute_name(Recompute recompute) {
  return kRecomputeNames[static_cast<std::size_t>(recompute)];
}

StageRecompute::StageRecompute(const std::map<StageId, Recompute>& stages) : stages_(stages) {
  std::erase_if(stages_, [](const auto& item) { return item.second == Recompute::none; });
}

Recompute StageRecompute::operator()(StageId stage) const {
  const auto found = stages_.find(stage);
  return found == stages_.end() ? everywhere_ : found->second;
}

bool StageRecompute::any(Recompute choice) const {
  return everywhere_ == choice ||
         std::ranges::any_of(stages_, [&](const auto& item) { return item.second == choice; });
}

std::ostream& operator<<(std::ostream& out, const StageRecompute& recompute) {
  if (recompute.stages().empty()) return out << recompute_name(recompute(StageId(0)));
  std::string_view before = kStages;
  for (const auto& [stage, choice] : recompute.stages()) {
    out << before << stage << ':' << recompute_name(choice);
    before = ",";
  }
  return out;
}

Expected<StageRecompute> recompute_from_text(std::string_view text) {
  if (const auto everywhere = recompute_from_name(text)) return StageRecompute(*everywhere);
  if (!text.starts_with(kStages)) return unknown_recompute(text);
  std::map<StageId, Recompute> stages;
  for (const std::string_view item : stage_items(text)) {
    const std::size_t colon = item.find(':');
    const auto stage = parse_count(item.substr(0, colon));
    const auto choice = colon == std::string_view::npos ? std::optional(Recompute::full)
                                                        : recompute_from_name(item.substr(colon + 1));
    if (!stage || !choice || !stages.emplace(StageId(*stage), *choice).second) return unknown_recompute(text);
  }
  return StageRecompute(stages);
}

std::ostream& operator<<(std::ostream& out, const Offload& offload) {
  if (!offload.on()) return out << "none";
  if (offload.stages.empty() && offload.percent == 100) return out << "all";
  if (offload.stages.empty() && offload.percent == 50) return out << "half";
  if (offload.percent != 100) out << offload.percent << '%';
  std::string_view before = offload.percent == 100 ? "stages=" : " of stages=";
  for (const StageId stage : offload.stages) {
    out << before << stage;
    before = ",";
  }
  return out;
}

Expected<Offload> offload_from_text(std::string_view text) {
  if (text == "none") return Offload{};
  if (text == "all") return Offload{.percent = 100, .stages = {}};
  if (text == "half") return Offload{.percent = 50, .stages = {}};
  if (text.ends_with('%')) {
    const auto percent = parse_count(text.substr(0, text.size() - 1));
    if (!percent || *percent < 1 || *percent > 100) return unknown_offload(text);
    return Offload{.percent = *percent, .stages = {}};
  }
  if (!text.starts_with(kStages)) return unknown_offload(text);
  Offload offload{.percent = 100, .stages = {}};
  for (const std::string_view item : stage_items(text)) {
    const auto stage = parse_count(item);
    if (!stage) return unknown_offload(text);
    offload.stages.emplace_back(*stage);
  }
  std::ranges::sort(offload.stages);
  const auto again = std::unique(offload.stages.begin(), offload.stages.end());
  if (again != offload.stages.end()) return unknown_offload(text);
  return offload;
}

}  // namespace ppsim

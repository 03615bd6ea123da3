#include "disturbance_options.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "command_line/validators.hpp"

namespace ppsim::cli {
namespace {

/// "KEY=VALUE" of an option.
struct Assignment {
  std::string key, value;
};

Expected<Assignment> assignment(const std::string& option, const std::string& text, const char* expected) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0)
    return Assignment{text.substr(0, equals), text.substr(equals + 1)};
  return make_error(ErrorCode::bad_argument, option + " needs a value",
                    {.found = text, .expected = expected});
}

Error named(const std::string& option, Error error) {
  error.message = option + ": " + error.message;
  return error;
}

Expected<VaryingCosts> varying_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts,
                         assignment("--vary", text, "COSTS=SPREAD, such as compute=lognormal:0.05"));
  VaryingCosts varying;
  if (parts.key != "all") {
    const auto group = cost_group_from_text(parts.key);
    if (!group) return tl::unexpected(named("--vary", group.error()));
    varying.group = *group;
  }
  auto spread = factor_spread_from_text(parts.value);
  if (!spread) return tl::unexpected(named("--vary", spread.error()));
  varying.spread = *std::move(spread);
  return varying;
}

constexpr const char* kRankFactor = "RANK=FACTOR, such as 3=1.2";
constexpr const char* kLinkFactor = "RANK-RANK=FACTOR, such as 2-3=2";

Expected<SlowRank> slow_rank_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts, assignment("--slow-rank", text, kRankFactor));
  int rank = 0;
  SlowRank slow;
  if (!read_number(parts.key, rank) || rank < 0 || !read_number(parts.value, slow.factor))
    return make_error(ErrorCode::bad_argument, "--slow-rank: no rank with its factor",
                      {.found = text, .expected = kRankFactor});
  slow.rank = RankId(rank);
  return slow;
}

Expected<SlowLink> slow_link_of(const std::string& text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts, assignment("--slow-link", text, kLinkFactor));
  const std::size_t dash = parts.key.find('-');
  int a = 0;
  int b = 0;
  SlowLink slow;
  if (dash == std::string::npos || !read_number(parts.key.substr(0, dash), a) || a < 0 ||
      !read_number(parts.key.substr(dash + 1), b) || b < 0 || !read_number(parts.value, slow.factor))
    return make_error(ErrorCode::bad_argument, "--slow-link: no two ranks with their factor",
                      {.found = text, .expected = kLinkFactor});
  slow.a = RankId(a);
  slow.b = RankId(b);
  return slow;
}

/// Reads each text with `read` into a list.
template <class Item, class Read>
Expected<void> read_all(const std::vector<std::string>& texts, const Read& read, std::vector<Item>& items) {
  for (const std::string& text : texts) {
    PPSIM_ASSIGN_OR_RETURN(auto item, read(text));
    items.push_back(std::move(item));
  }
  return {};
}

}  // namespace

void add_disturbance_options(Command& command, DisturbanceOptions& options) {
  command
      .add_option("--vary", options.varying,
                  "COSTS=SPREAD: all, compute, transfers, F, rank:0, ... = lognormal:0.05, normal:0.1, "
                  "gamma:0.3 or list:1,1,1.5, with :0.9 for a correlation of each with the next")
      .one_value_each();
  command.add_option("--vary-ranks", options.ranks, "SPREAD of a factor that each rank keeps for a step");
  command
      .add_option("--slow-rank", options.slow_ranks,
                  "RANK=FACTOR: what its computation and copies take longer")
      .one_value_each();
  command
      .add_option("--slow-link", options.slow_links,
                  "RANK-RANK=FACTOR: what messages between both take longer")
      .one_value_each();
  command.add_option("--seed", options.seed, "where the random numbers start")
      .show_default()
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
}

Expected<Disturbances> disturbances_of(const DisturbanceOptions& options) {
  if (!options.any())
    return make_error(ErrorCode::bad_argument, "nothing differs from the plan",
                      {.expected = "--vary, --vary-ranks, --slow-rank or --slow-link"});
  Disturbances result;
  PPSIM_RETURN_IF_ERROR(read_all(options.varying, varying_of, result.varying));
  PPSIM_RETURN_IF_ERROR(read_all(options.slow_ranks, slow_rank_of, result.slow_ranks));
  PPSIM_RETURN_IF_ERROR(read_all(options.slow_links, slow_link_of, result.slow_links));
  if (options.ranks.empty()) return result;
  auto spread = factor_spread_from_text(options.ranks);
  if (!spread) return tl::unexpected(named("--vary-ranks", spread.error()));
  result.ranks = *std::move(spread);
  return result;
}

Json spread_json(const Spread& spread) {
  Json object = {{"mean", spread.mean},
                 {"mean_low", spread.mean - spread.mean_error},
                 {"mean_high", spread.mean + spread.mean_error}};
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const std::string name = "p" + std::to_string(std::lround(100 * Spread::kShares[i]));
    object[name] = spread.percentiles[i];
    object[name + "_low"] = spread.lowest[i];
    object[name + "_high"] = spread.highest[i];
  }
  return object;
}

}  // namespace ppsim::cli

#include "plan/space.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::planner {
namespace {

constexpr std::array<std::string_view, 7> kCountKeys = {"tp",    "pp", "dp", "cp", "ep", "microbatch-size",
                                                        "chunks"};
constexpr std::array<std::string_view, 12> kPlanKeys = {
    "tp",       "pp",     "dp",        "cp",    "ep",   "microbatch-size",
    "schedule", "chunks", "recompute", "dtype", "fsdp", "layout"};

/// Updates without a flush compute other gradients; a building block is 1F1B as long as it is not described;
/// SPMD is what the others are compared with.
constexpr std::array<std::string_view, 5> kOtherTraining = {"pipedream", "pipedream-2bw", "building-block",
                                                            "spmd-gpipe", "spmd-circular"};

constexpr std::array<std::string_view, 4> kRecomputes = {"none", "selective", "nothing_saveable", "full"};

constexpr const char* kNotOfGpus = "tp x pp x cp must divide the number of GPUs";

tl::unexpected<Error> not_a_value(const std::string& key, const std::string& value,
                                  const std::string& expected) {
  return make_error(ErrorCode::bad_argument, "no value of " + key,
                    {.found = key + "=" + value, .expected = expected});
}

/// "tp=8, pp=4", of those that are more than one.
std::string product_text(const std::vector<std::pair<std::string, int>>& groups) {
  std::string text;
  for (const auto& [key, size] : groups) {
    if (size > 1) text += (text.empty() ? "" : ", ") + key + "=" + std::to_string(size);
  }
  return text;
}

std::vector<int> divisors(int number) {
  std::vector<int> result;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) result.push_back(i);
  }
  return result;
}

std::vector<int> powers_of_two(int most) {
  std::vector<int> result;
  for (std::int64_t i = 1; i <= most; i *= 2) result.push_back(static_cast<int>(i));
  return result;
}

/// True of a schedule that the planner tries where nobody asks for it.
bool is_searched(const ScheduleInfo& info) {
  return !info.forward_only && !info.has_slices && !info.uses_costs &&
         std::ranges::find(kOtherTraining, info.name) == kOtherTraining.end();
}

/// True where microbatches of one step read different weights. It is the same for every number of ranks.
bool is_asynchronous(const ScheduleInfo& info) {
  ScheduleParameters parameters;
  parameters.ranks = 4;
  parameters.microbatches = 8;
  const auto schedule = generate(info.name, parameters);
  return schedule && schedule->pipeline().asynchronous();
}

}  // namespace

std::string_view layout_rule_name(LayoutRule rule) {
  switch (rule) {
    case LayoutRule::even:
      return "even";
    case LayoutRule::balanced:
      return "auto";
  }
  return "even";
}

std::vector<std::string> Space::unused(const std::vector<GpuParallelism>& parallelisms) const {
  if (counts_.empty()) return {};
  std::set<std::pair<std::string, int>> used;
  std::map<int, std::vector<ScheduleChoice>> of_ranks;
  for (const auto& [nodes, groups] : parallelisms) {
    const auto [choices, added] = of_ranks.try_emplace(groups.pipeline);
    if (added) choices->second = schedules(groups.pipeline);
    if (choices->second.empty()) continue;
    used.insert({{"tp", groups.tensor},
                 {"pp", groups.pipeline},
                 {"dp", groups.data},
                 {"cp", groups.context},
                 {"ep", groups.expert},
                 {"microbatch-size", groups.microbatch_size}});
    for (const ScheduleChoice& choice : choices->second)
      used.insert({"chunks", choice.chunks.value_or(choice.info->default_chunks)});
  }
  std::vector<std::string> result;
  for (const auto& [key, values] : counts_) {
    for (const int value : values) {
      if (!used.contains({key, value})) result.push_back(key + "=" + std::to_string(value));
    }
  }
  return result;
}

Expected<Space> Space::make(const PlanRequest& request) {
  Space space(request);
  PPSIM_RETURN_IF_ERROR(space.read());
  return space;
}

Expected<void> Space::read() {
  nodes_ = request_->nodes;
  if (nodes_.empty()) nodes_ = {request_->work.cluster.nodes};
  for (const auto& [key, values] : request_->fixed) {
    if (std::ranges::find(kPlanKeys, key) != kPlanKeys.end() && !values.empty()) continue;
    const std::vector<std::string_view> known(kPlanKeys.begin(), kPlanKeys.end());
    return tl::unexpected(unknown_name("nothing to fix", key, known, ""));
  }
  for (const ScheduleInfo& info : registered_schedules()) {
    if (is_searched(info)) schedules_.push_back(&info);
  }
  PPSIM_RETURN_IF_ERROR(read_counts());
  return read_words();
}

Expected<void> Space::read_counts() {
  for (const std::string_view name : kCountKeys) {
    const std::string key(name);
    const auto given = request_->fixed.find(key);
    if (given == request_->fixed.end()) continue;
    for (const std::string& text : given->second) {
      const int value = parse_number<int>(text).value_or(0);
      if (value < 1) return not_a_value(key, text, "a whole number from 1 on");
      counts_[key].push_back(value);
    }
    sort_unique(counts_[key]);
  }
  return {};
}

std::vector<std::string> Space::words(const std::string& key) const {
  const auto given = request_->fixed.find(key);
  return given == request_->fixed.end() ? std::vector<std::string>() : given->second;
}

Expected<void> Space::read_recomputes() {
  const std::vector<std::string> given = words("recompute");
  for (const std::string& word : given) {
    if (std::ranges::find(kRecomputes, word) == kRecomputes.end())
      return not_a_value("recompute", word, joined(kRecomputes));
  }
  for (const std::string_view name : kRecomputes) {
    if (!given.empty() && std::ranges::find(given, name) == given.end()) continue;
    PPSIM_ASSIGN_OR_RETURN(auto recompute, recompute_from_words(name));
    Workload work = request_->work;
    if (recompute.checkpoints) work.stack.checkpoints = recompute.checkpoints;
    auto priced = workload::check_checkpoints(work);
    if (!priced && !given.empty()) return priced;
    if (priced) recomputes_.push_back(std::move(recompute));
  }
  return {};
}

Expected<void> Space::read_words() {
  /// Reads the words of a key in the place of what is searched by default.
  const auto read = [&]<class T>(const char* key, std::vector<T>& values,
                                 const std::vector<std::pair<std::string, T>>& known) -> Expected<void> {
    const std::vector<std::string> given = words(key);
    if (given.empty()) return {};
    values.clear();
    for (const auto& [name, value] : known) {
      if (std::ranges::find(given, name) != given.end()) values.push_back(value);
    }
    for (const std::string& word : given) {
      if (std::ranges::none_of(known, [&](const auto& one) { return one.first == word; }))
        return not_a_value(key, word, joined(keys_in(known)));
    }
    return {};
  };
  PPSIM_RETURN_IF_ERROR(read_recomputes());
  PPSIM_RETURN_IF_ERROR(
      read("layout", layouts_, {{"even", LayoutRule::even}, {"auto", LayoutRule::balanced}}));
  PPSIM_RETURN_IF_ERROR(read("dtype", types_,
                             {{"bf16", DataType::bf16},
                              {"fp8", DataType::fp8},
                              {"mxfp8", DataType::fp8},
                              {"nvfp4", DataType::nvfp4}}));
  PPSIM_RETURN_IF_ERROR(read("fsdp", sharded_, {{"off", false}, {"on", true}}));
  const std::vector<std::string> names = words("schedule");
  schedules_given_ = !names.empty();
  if (schedules_given_) schedules_.clear();
  for (const std::string& name : names) {
    if (name.find(',') != std::string::npos)
      return not_a_value("schedule", name, "names joined by +, such as 1f1b+zb-h1");
    PPSIM_ASSIGN_OR_RETURN(const auto info, find_schedule(name));
    if (info->forward_only || info->has_slices)
      return not_a_value("schedule", name, "a schedule that trains in whole sequences");
    if (is_asynchronous(*info))
      return not_a_value("schedule", name, "a schedule that updates once a step, for all microbatches");
    schedules_.push_back(info);
  }
  return {};
}

bool Space::allows(const std::string& key, int value) const {
  const auto given = counts_.find(key);
  return given == counts_.end() || std::ranges::find(given->second, value) != given->second.end();
}

ClusterDescription Space::cluster(int nodes) const {
  ClusterDescription cluster = request_->work.cluster;
  cluster.nodes = nodes;
  return cluster;
}

void Parallelisms::refuse(Error error) {
  if (std::ranges::find(refused, error.message, &Error::message) == refused.end())
    refused.push_back(std::move(error));
}

void Parallelisms::refuse(const std::string& message, const std::string& found, const std::string& expected) {
  refuse({ErrorCode::bad_argument, message, {.found = found, .expected = expected}});
}

tl::unexpected<Error> Parallelisms::none(std::string_view message) const {
  std::string text = std::string(message) + ": ";
  if (refused.size() > 1) {
    for (const Error& error : refused) text += (&error == &refused.front() ? "" : "; ") + to_string(error);
    return make_error(ErrorCode::bad_argument, text);
  }
  const Error reason = refused.empty() ? unfilled.value_or(Error{}) : refused.front();
  return make_error(ErrorCode::bad_argument, text + reason.message, reason.place);
}

Parallelisms Space::parallelisms() const {
  Parallelisms result;
  for (const int nodes : nodes_) add_parallelisms(nodes, result);
  return result;
}

/// Those that are fixed, whether they divide or not, or else those that are searched.
std::vector<int> Space::values(const std::string& key, const std::vector<int>& searched) const {
  const auto given = counts_.find(key);
  return given == counts_.end() ? searched : given->second;
}

/// Beside other values than 1 that nobody fixed, what does not divide is not worth a word.
bool Space::is_asked(const Parallelism& groups) const {
  return (groups.tensor == 1 || counts_.contains("tp")) && (groups.context == 1 || counts_.contains("cp"));
}

void Space::add_parallelisms(int nodes, Parallelisms& parallelisms) const {
  const ClusterDescription own = cluster(nodes);
  const int gpus = own.gpu_count();
  Parallelism groups = request_->work.parallelism;
  for (const int tp : values("tp", divisors(gpus))) {
    groups.tensor = tp;
    if (gpus % tp != 0) {
      parallelisms.refuse(kNotOfGpus, product_text({{"tp", tp}}), "a divisor of " + std::to_string(gpus));
      continue;
    }
    for (const int cp : values("cp", divisors(gpus / tp))) {
      groups.context = cp;
      if (gpus / tp % cp == 0) {
        add_with_pipeline(own, groups, parallelisms);
      } else if (is_asked(groups)) {
        parallelisms.refuse(kNotOfGpus, product_text({{"tp", tp}, {"cp", cp}}),
                            "a divisor of " + std::to_string(gpus));
      }
    }
  }
}

void Space::add_with_pipeline(const ClusterDescription& cluster, Parallelism groups,
                              Parallelisms& parallelisms) const {
  const int gpus = cluster.gpu_count();
  const int left = gpus / groups.tensor / groups.context;
  for (const int pp : values("pp", divisors(left))) {
    const std::string own = product_text({{"tp", groups.tensor}, {"cp", groups.context}, {"pp", pp}});
    if (left % pp != 0) {
      if (is_asked(groups)) parallelisms.refuse(kNotOfGpus, own, "a divisor of " + std::to_string(gpus));
    } else if (pp > request_->work.model.layers && (counts_.contains("pp") || allows("dp", left / pp))) {
      parallelisms.refuse("a pipeline has at most as many ranks as layers", "pp=" + std::to_string(pp),
                          "at most " + std::to_string(request_->work.model.layers));
    } else if (!allows("dp", left / pp)) {
      if (parallelisms.unfilled) continue;
      parallelisms.unfilled =
          Error{ErrorCode::bad_argument,
                "tp x pp x dp x cp must be the number of GPUs of the cluster",
                {.found = own + (own.empty() ? "" : ", ") + "dp=" + std::to_string(counts_.at("dp").front()),
                 .expected = "dp=" + std::to_string(left / pp) + " on " + std::to_string(gpus) + " GPUs"}};
    } else {
      groups.pipeline = pp;
      groups.data = left / pp;
      add_with_groups(cluster, groups, parallelisms);
    }
  }
}

void Space::add_with_groups(const ClusterDescription& cluster, const Parallelism& groups,
                            Parallelisms& parallelisms) const {
  const ModelDescription& model = request_->work.model;
  const int members = groups.tensor * groups.context * groups.data;
  const std::vector<int> sizes = powers_of_two(std::max(1, groups.global_batch_size / groups.data));
  for (const int ep : values("ep", model.experts > 0 ? divisors(members) : std::vector{1})) {
    if (ep > 1 && model.experts == 0) {
      parallelisms.refuse("ep needs a model with experts", "ep=" + std::to_string(ep), "ep=1");
      continue;
    }
    for (const int size : values("microbatch-size", sizes)) {
      Parallelism parallelism = groups;
      parallelism.expert = ep;
      parallelism.microbatch_size = size;
      if (const auto good = check_parallelism(parallelism, model, cluster); !good) {
        parallelisms.refuse(good.error());
        continue;
      }
      for (const DataType type : types_) {
        for (const bool sharded : sharded_) {
          parallelism.dtype = type;
          parallelism.sharded_parameters = sharded;
          parallelisms.possible.push_back({cluster.nodes, parallelism});
        }
      }
    }
  }
}

std::vector<ScheduleChoice> Space::schedules(int ranks) const {
  std::vector<ScheduleChoice> choices;
  for (const ScheduleInfo* info : schedules_) {
    if (ranks == 1 && !schedules_given_ && info->name != "1f1b") continue;
    add_chunks(*info, ranks, choices);
  }
  return choices;
}

void Space::add_chunks(const ScheduleInfo& info, int ranks, std::vector<ScheduleChoice>& choices) const {
  if (info.min_chunks == info.max_chunks || info.default_chunks == info.max_chunks) {
    if (allows("chunks", info.default_chunks)) choices.push_back({&info, std::nullopt});
    return;
  }
  // Embedding and loss may have a stage of their own.
  const std::int64_t most = (request_->work.model.layers + 2) / ranks;
  for (int chunks = std::max(2, info.min_chunks); chunks <= std::min<std::int64_t>(most, info.max_chunks);
       ++chunks) {
    if (allows("chunks", chunks)) choices.push_back({&info, chunks});
  }
}

}  // namespace ppsim::planner

#include <algorithm>
#include <map>

#include "sample.hpp"

namespace ppsim::verifier {
namespace {

using Touch = TensorSeries::Touch;

tl::unexpected<Error> refused_tensors(const SizeClass& size_class, const std::string& why) {
  return make_error(ErrorCode::refused, "tensors of " + std::string(info(size_class.kind).name) + " of " +
                                            std::to_string(size_class.subject) + why);
}

/// Where the first instance of a series starts, all others have not: only the first of a queue counts, and of
/// several queues those that no other one precedes.
std::vector<InstructionId> first_writers(const LocalOrder& order, std::span<const InstructionId> writers) {
  std::vector<InstructionId> first;
  for (const InstructionId w : writers) {
    const auto implied = [&](InstructionId f) {
      return (order.track(f) == order.track(w) && order.position(f) <= order.position(w)) ||
             order.precedes(f, w);
    };
    if (std::ranges::none_of(first, implied)) first.push_back(w);
  }
  return first;
}

std::vector<InstructionId> last_users(const LocalOrder& order, std::span<const InstructionId> users) {
  std::vector<InstructionId> last;
  for (auto u = users.rbegin(); u != users.rend(); ++u) {
    const auto implied = [&](InstructionId l) {
      return (order.track(l) == order.track(*u) && order.position(l) >= order.position(*u)) ||
             order.precedes(*u, l);
    };
    if (std::ranges::none_of(last, implied)) last.push_back(*u);
  }
  return last;
}

/// The key that the tensors of one series share.
struct Kind {
  SizeClass size_class;
  RankId rank;
  bool from_start = false;
  bool to_end = false;
  std::vector<int> writers;  ///< series, ascending
  std::vector<int> users;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

/// The instances that touch one tensor, in the order of its kind's series.
struct Instance {
  std::vector<std::int64_t> writers;
  std::vector<std::int64_t> users;
  friend auto operator<=>(const Instance&, const Instance&) = default;
};

using Kinds = std::map<Kind, std::vector<Instance>>;

void split(const Sample& sample, const std::vector<InstructionId>& ids, std::vector<int>& series,
           std::vector<std::int64_t>& index) {
  std::vector<std::pair<int, std::int64_t>> touches;
  for (const InstructionId id : ids) touches.emplace_back(sample.series(id), sample.index(id));
  std::ranges::sort(touches);
  for (const auto& [s, i] : touches) {
    series.push_back(s);
    index.push_back(i);
  }
}

Kinds kinds_of(const Sample& sample) {
  Kinds kinds;
  for (const TensorTouches& tensor : touches_of(sample)) {
    Kind kind{tensor.size_class, tensor.rank, tensor.from_start, tensor.to_end, {}, {}};
    Instance instance;
    split(sample, tensor.writers, kind.writers, instance.writers);
    split(sample, tensor.users, kind.users, instance.users);
    kinds[std::move(kind)].push_back(std::move(instance));
  }
  for (auto& [kind, instances] : kinds) std::ranges::sort(instances);
  return kinds;
}

/// Which instances touch the first tensor, the second one, and the first one of a period more.
struct Touching {
  const std::vector<std::int64_t>& first;
  const std::vector<std::int64_t>& second;
  const std::vector<std::int64_t>& at_next;
};

/// Touches by instances that run in one direction from those of the first tensor, as the second one says.
std::vector<Touch> touches(const std::vector<int>& series, const Touching& instances, std::int64_t k) {
  std::vector<Touch> result;
  for (std::size_t i = 0; i < series.size(); ++i) {
    result.push_back({series[i], line(instances.first[i], instances.at_next[i], k),
                      instances.second[i] < instances.first[i] ? -1 : 1});
  }
  return result;
}

std::vector<int> series_of(const std::vector<Touch>& touches) {
  std::vector<int> series;
  for (const Touch& touch : touches) series.push_back(touch.series);
  return series;
}

bool is_instance(const std::vector<Touch>& touches, const std::vector<std::int64_t>& index, std::int64_t i,
                 std::int64_t k) {
  for (std::size_t t = 0; t < touches.size(); ++t) {
    if (index[t] != touches[t].shift.at(k) + touches[t].direction * i) return false;
  }
  return true;
}

/// The first or last of several touches of a tensor is the one of which fewest or most tensors have seen
/// theirs only where all run in one direction.
bool alike(const std::vector<Touch>& touches) {
  return std::ranges::all_of(touches,
                             [&](const Touch& t) { return t.direction == touches.front().direction; });
}

Expected<void> check_kind(const TensorSeries& series, const std::vector<Instance>& instances,
                          std::int64_t k) {
  if (static_cast<std::int64_t>(instances.size()) != series.count.at(k))
    return refused_tensors(series.size_class, " are of another number");
  if (!alike(series.writers) || !alike(series.users))
    return refused_tensors(series.size_class, " are used in two directions");
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    if (!is_instance(series.writers, instances[i].writers, n, k) ||
        !is_instance(series.users, instances[i].users, n, k))
      return refused_tensors(series.size_class, " are not used alike in each period");
  }
  return {};
}

}  // namespace

std::vector<TensorTouches> touches_of(const Sample& sample) {
  const TensorTable& table = sample.analyzed.tensors();
  std::vector<TensorTouches> result;
  result.reserve(table.tensors.size());
  for (const Tensor& tensor : table.tensors) {
    TensorTouches touches{tensor.size_class, tensor.rank, tensor.from_start, tensor.to_end, {}, {}};
    if (!tensor.from_start) touches.writers = first_writers(sample.order, table.writers_of(tensor));
    if (!tensor.to_end) touches.users = last_users(sample.order, table.users_of(tensor));
    result.push_back(std::move(touches));
  }
  return result;
}

Expected<std::vector<TensorSeries>> find_tensors(const Sample& at_k, const Sample& at_next) {
  const Kinds kinds = kinds_of(at_k);
  const Kinds next = kinds_of(at_next);
  std::vector<TensorSeries> result;
  for (const auto& [kind, instances] : kinds) {
    const auto found = next.find(kind);
    if (found == next.end())
      return refused_tensors(kind.size_class, " are not used alike with more microbatches");
    const Instance& first = instances.front();
    const Instance& first_next = found->second.front();
    const Instance& second = instances[std::min<std::size_t>(1, instances.size() - 1)];
    TensorSeries series{kind.size_class, kind.rank, kind.from_start, kind.to_end, {}, {}, {}};
    series.writers = touches(kind.writers, {first.writers, second.writers, first_next.writers}, at_k.k);
    series.users = touches(kind.users, {first.users, second.users, first_next.users}, at_k.k);
    series.count = line(static_cast<std::int64_t>(instances.size()),
                        static_cast<std::int64_t>(found->second.size()), at_k.k);
    result.push_back(std::move(series));
  }
  for (const Sample* sample : {&at_k, &at_next}) {
    PPSIM_RETURN_IF_ERROR(check_tensors(result, *sample));
  }
  return result;
}

Expected<void> check_tensors(const std::vector<TensorSeries>& tensors, const Sample& sample) {
  Kinds kinds = kinds_of(sample);
  for (const TensorSeries& series : tensors) {
    const Kind kind{series.size_class,         series.rank,
                    series.from_start,         series.to_end,
                    series_of(series.writers), series_of(series.users)};
    const auto found = kinds.find(kind);
    PPSIM_RETURN_IF_ERROR(
        check_kind(series, found == kinds.end() ? std::vector<Instance>() : found->second, sample.k));
    if (found != kinds.end()) kinds.erase(found);
  }
  if (!kinds.empty())
    return refused_tensors(kinds.begin()->first.size_class, " are not used as with more microbatches");
  return {};
}

}  // namespace ppsim::verifier

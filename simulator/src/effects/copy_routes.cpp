#include "copy_routes.hpp"

#include <algorithm>
#include <functional>
#include <set>

namespace ppsim::simulator {
namespace {

using CopyMap = std::function<int(int)>;

/// Turns one digit of one coordinate of a copy: `stride` copies apart, of `base` values.
CopyMap turned_digit(int stride, int base) {
  return [=](int copy) {
    const int digit = copy / stride % base;
    return copy + ((digit + 1) % base - digit) * stride;
  };
}

/// The turns of all digits of a coordinate, in the smallest possible bases. Together they take every copy to
/// every other one, and blocks of copies to blocks, such as those of a node.
void add_turns(int stride, int count, std::vector<CopyMap>& turns) {
  for (int base = 2; count > 1; ++base) {
    for (; count % base == 0; count /= base, stride *= base) turns.push_back(turned_digit(stride, base));
  }
}

/// A map of links that grows, and is one to one and keeps capacities.
class LinkMap {
 public:
  explicit LinkMap(const std::vector<Link>& links)
      : links_(links), to_(links.size(), kNone), from_(links.size(), kNone) {}

  bool add(std::uint32_t from, std::uint32_t to) {
    if (to_[from] == kNone && from_[to] == kNone && links_[from].capacity == links_[to].capacity) {
      to_[from] = to;
      from_[to] = from;
    }
    return to_[from] == to && from_[to] == from;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  const std::vector<Link>& links_;
  std::vector<std::uint32_t> to_;
  std::vector<std::uint32_t> from_;
};

/// The links that each copy takes, by way and copy.
using OwnTakes = std::vector<std::vector<std::vector<LinkTake>>>;

/// Whether a map of the copies maps their links onto each other.
bool is_symmetry(const CopyLinks& links, const OwnTakes& own, const CopyMap& map) {
  LinkMap of_links(links.links());
  for (const auto& way : own) {
    for (std::size_t copy = 0; copy < way.size(); ++copy) {
      const auto& from = way[copy];
      const auto& to = way[static_cast<std::size_t>(map(static_cast<int>(copy)))];
      if (from.size() != to.size()) return false;
      for (std::size_t i = 0; i < from.size(); ++i)
        if (from[i].streams != to[i].streams || !of_links.add(from[i].link, to[i].link)) return false;
    }
  }
  return true;
}

/// Adds the shares that several copies take of the links in `takes`, or, with `new_links`, of any link.
void add_takes(std::vector<LinkTake>& takes, const std::vector<LinkTake>& more, bool new_links) {
  for (const LinkTake& take : more) {
    const auto known = std::ranges::find(takes, take.link, &LinkTake::link);
    if (known != takes.end()) {
      known->streams += take.streams;
    } else if (new_links) {
      takes.push_back(take);
    }
  }
}

/// The copies of a tensor-parallel group, and those of one GPU of all groups.
struct Grid {
  int tensor;
  int groups;
};

/// The members of a way's flow that copy `copy` begins; empty: another one does.
std::vector<int> members_of(Way::What what, const Grid& grid, int copy) {
  if (what == Way::What::message || what == Way::What::ranks) return {copy};
  std::vector<int> members;
  if (what == Way::What::tensor && copy % grid.tensor == 0)
    for (int t = 0; t < grid.tensor; ++t) members.push_back(copy + t);
  if (what == Way::What::data && copy < grid.tensor)
    for (int d = 0; d < grid.groups; ++d) members.push_back(copy + d * grid.tensor);
  return members;
}

struct CopyRange {
  int first;
  int end;
};

std::vector<LinkTake> unfolded_route(const std::vector<std::vector<LinkTake>>& own,
                                     const std::vector<int>& members) {
  std::vector<LinkTake> takes;
  for (const int member : members) add_takes(takes, own[static_cast<std::size_t>(member)], true);
  return takes;
}

/// The share that all flows of the folded copies take of the links of the simulated ones.
std::vector<LinkTake> folded_route(const std::vector<std::vector<LinkTake>>& own,
                                   const std::vector<int>& simulated, const CopyRange& folded) {
  std::vector<LinkTake> takes = unfolded_route(own, simulated);
  for (LinkTake& take : takes) take.streams = 0;
  for (int copy = folded.first; copy < folded.end; ++copy)
    add_takes(takes, own[static_cast<std::size_t>(copy)], false);
  return takes;
}

}  // namespace

CopyLinks::CopyLinks(const PipelineCopies& copies, const GpuNetwork& network, int ranks)
    : copies_(copies), network_(network), ranks_(ranks) {
  const int gpus = copies.size() * ranks;
  const auto add = [&](const std::string& name, Rate capacity) {
    links_.push_back({name + " out", capacity});
    links_.push_back({name + " in", capacity});
  };
  for (int g = 0; g < gpus; ++g) add("GPU " + std::to_string(g) + " NVLink", kFullSpeed);
  first_nic_ = static_cast<std::uint32_t>(links_.size());
  const int nodes = (gpus + network.node - 1) / network.node;
  for (int node = 0; node < nodes; ++node) {
    for (int nic = 0; nic < network.nics; ++nic)
      add("node " + std::to_string(node) + " NIC " + std::to_string(nic),
          kFullSpeed * network.node / network.nics);
  }
  if (network.core > 0) links_.push_back({"core", network.core});
}

/// As the orders of ranks lay them out, innermost first.
int CopyLinks::gpu(RankId rank, int copy) const {
  const int inner = copies_.tensor * copies_.context;
  const int pipeline = copy / inner;
  const int outer =
      network_.pipelines_apart ? pipeline * ranks_ + rank.value() : rank.value() * copies_.data + pipeline;
  return outer * inner + copy % inner;
}

bool CopyLinks::share_domain(const std::vector<int>& gpus) const {
  return std::ranges::all_of(
      gpus, [&](int gpu) { return gpu / network_.domain == gpus.front() / network_.domain; });
}

/// All GPUs of the flow that a copy takes part in.
std::vector<int> CopyLinks::members(const Way& way, int copy) const {
  const Grid grid{copies_.tensor, copies_.context * copies_.data};
  const int first = way.what == Way::What::tensor ? copy - copy % grid.tensor : copy % grid.tensor;
  const bool one = way.what == Way::What::message || way.what == Way::What::ranks;
  std::vector<int> gpus;
  for (const int member : members_of(way.what, grid, one ? copy : first))
    for (const RankId rank : way.ranks) gpus.push_back(gpu(rank, member));
  return gpus;
}

void CopyLinks::take(std::vector<LinkTake>& takes, int gpu, bool outward, bool nvlink) const {
  std::uint32_t link = static_cast<std::uint32_t>(gpu);
  if (!nvlink) {
    const int nic = gpu % network_.node * network_.nics / network_.node;
    link = first_nic_ / 2 + static_cast<std::uint32_t>(gpu / network_.node * network_.nics + nic);
  }
  takes.push_back({2 * link + (outward ? 0 : 1)});
}

/// Whether traffic between these GPUs passes the core. With rails, traffic between GPUs with the same place
/// in their nodes stays on their rail.
bool CopyLinks::passes_core(const std::vector<int>& gpus) const {
  if (network_.core == 0) return false;
  return !network_.rails || std::ranges::any_of(gpus, [&](int gpu) {
    return gpu % network_.node != gpus.front() % network_.node;
  });
}

std::vector<LinkTake> CopyLinks::own(const Way& way, int copy) const {
  const std::vector<int> all = members(way, copy);
  const bool nvlink = share_domain(all);
  const bool is_message = way.what == Way::What::message;
  std::vector<LinkTake> takes;
  if (all.size() < 2) return takes;
  std::uint32_t streams = 0;
  for (std::size_t i = 0; i < way.ranks.size(); ++i) {
    const int own = gpu(way.ranks[i], copy);
    if (!is_message || i == 0) take(takes, own, true, nvlink), ++streams;
    if (!is_message || i == 1) take(takes, own, false, nvlink);
  }
  if (!nvlink && passes_core(all)) takes.push_back({static_cast<std::uint32_t>(links_.size() - 1), streams});
  std::vector<LinkTake> once;  // two ranks of a flow may share a NIC
  add_takes(once, takes, true);
  return once;
}

CopyRoutes copy_routes(const CopyLinks& links, const std::vector<Way>& ways, const PipelineCopies& copies,
                       Folding folding) {
  OwnTakes own(ways.size());
  for (std::size_t w = 0; w < ways.size(); ++w)
    for (int copy = 0; copy < copies.size(); ++copy) own[w].push_back(links.own(ways[w], copy));
  const auto all_symmetric = [&](const std::vector<CopyMap>& turns) {
    return folding == Folding::where_equal &&
           std::ranges::all_of(turns, [&](const CopyMap& turn) { return is_symmetry(links, own, turn); });
  };
  std::vector<CopyMap> of_tensor;
  add_turns(1, copies.tensor, of_tensor);
  std::vector<CopyMap> of_groups;
  add_turns(copies.tensor, copies.context * copies.data, of_groups);
  const bool tensor = all_symmetric(of_tensor);
  const bool all = tensor && all_symmetric(of_groups);
  const Grid grid{copies.tensor, copies.context * copies.data};
  CopyRoutes result{Routes(),
                    {static_cast<std::uint32_t>(tensor ? 1 : grid.tensor),
                     static_cast<std::uint32_t>(all ? 1 : grid.groups)}};
  for (std::size_t w = 0; w < ways.size(); ++w) {
    for (int simulated = 0; simulated < static_cast<int>(result.grid.size()); ++simulated) {
      const int copy = tensor ? simulated * grid.tensor : simulated;
      const auto members = members_of(ways[w].what, grid, copy);
      if (!tensor) {
        result.routes.add(unfolded_route(own[w], members));
        continue;
      }
      // A route between pipelines stands for all copies, even where only tensor-parallel ones are folded.
      const bool between = !all && ways[w].what == Way::What::data;
      const bool of_all = all || between;
      const int first = of_all ? 0 : copy;
      result.routes.add(folded_route(own[w], between ? members : std::vector<int>{copy},
                                     {first, of_all ? copies.size() : first + grid.tensor}));
    }
  }
  return result;
}

}  // namespace ppsim::simulator

// 1F1B on NICs of nodes, for SimGrid (Debian: libsimgrid-dev), as `ppsim contention 1f1b --ranks P
// --microbatches M
// --unit F=1,B=2,c=0.1 --ranks-per-node 8 --placement cyclic` has it: the same computations, messages and
// links.
//
//   g++ -O3 -std=c++17 simgrid.cpp -lsimgrid -o simgrid && ./simgrid P M --log=root.thres:critical

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

constexpr double kForward = 1e-3, kBackward = 2e-3, kTransfer = 1e-4;  // seconds
constexpr double kSpeed = 1e9;                                         // flop/s of a host, byte/s of a NIC
constexpr int kRanksOfNode = 8;

struct Step {
  sg::ExecPtr forward, backward;
  sg::CommPtr to_next, to_previous;
};

using Steps = std::vector<std::vector<Step>>;

std::vector<sg::Host*> make_platform(int ranks) {
  sg::NetZone* zone = sg::create_full_zone("zone");
  const int nodes = (ranks + kRanksOfNode - 1) / kRanksOfNode;
  std::vector<sg::Link*> out, in;
  for (int node = 0; node < nodes; ++node) {
    out.push_back(zone->create_link("out" + std::to_string(node), kSpeed)->set_latency(0)->seal());
    in.push_back(zone->create_link("in" + std::to_string(node), kSpeed)->set_latency(0)->seal());
  }
  std::vector<sg::Host*> hosts;
  for (int rank = 0; rank < ranks; ++rank)
    hosts.push_back(zone->create_host("r" + std::to_string(rank), kSpeed)->seal());
  for (int a = 0; a < ranks; ++a) {
    for (const int b : {a - 1, a + 1}) {
      if (b < 0 || b >= ranks || a % nodes == b % nodes) continue;
      zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr,
                      {sg::LinkInRoute(out[a % nodes]), sg::LinkInRoute(in[b % nodes])}, false);
    }
  }
  zone->seal();
  return hosts;
}

/// Forwards and backwards of a rank in the order of 1F1B.
std::vector<std::pair<bool, int>> row_of(int ranks, int microbatches, int rank) {
  const int ahead = std::min(microbatches, ranks - 1 - rank);
  std::vector<std::pair<bool, int>> row;
  for (int i = 0; i < microbatches + ahead; ++i) {
    if (i < microbatches) row.emplace_back(true, i);
    if (i >= ahead) row.emplace_back(false, i - ahead);
  }
  return row;
}

void make_activities(const std::vector<sg::Host*>& hosts, Steps& steps) {
  const int ranks = static_cast<int>(hosts.size());
  for (int r = 0; r < ranks; ++r) {
    for (Step& step : steps[r]) {
      step.forward = sg::Exec::init()->set_flops_amount(kForward * kSpeed)->set_host(hosts[r]);
      step.backward = sg::Exec::init()->set_flops_amount(kBackward * kSpeed)->set_host(hosts[r]);
      if (r + 1 < ranks)
        step.to_next = sg::Comm::sendto_init(hosts[r], hosts[r + 1])->set_payload_size(kTransfer * kSpeed);
      if (r > 0)
        step.to_previous =
            sg::Comm::sendto_init(hosts[r], hosts[r - 1])->set_payload_size(kTransfer * kSpeed);
    }
  }
}

void add_dependencies(Steps& steps) {
  const int ranks = static_cast<int>(steps.size());
  const int microbatches = static_cast<int>(steps[0].size());
  for (int r = 0; r < ranks; ++r) {
    sg::ExecPtr before;
    for (const auto& [forward, m] : row_of(ranks, microbatches, r)) {
      const sg::ExecPtr& own = forward ? steps[r][m].forward : steps[r][m].backward;
      if (before) before->add_successor(own);
      before = own;
    }
    for (int m = 0; m < microbatches; ++m) {
      Step& step = steps[r][m];
      if (step.to_next) {
        step.forward->add_successor(step.to_next);
        step.to_next->add_successor(steps[r + 1][m].forward);
        if (m > 0) steps[r][m - 1].to_next->add_successor(step.to_next);
      }
      if (step.to_previous) {
        step.backward->add_successor(step.to_previous);
        step.to_previous->add_successor(steps[r - 1][m].backward);
        if (m > 0) steps[r][m - 1].to_previous->add_successor(step.to_previous);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/TCP-gamma:0");
  sg::Engine::set_config("network/crosstraffic:0");
  const int ranks = std::atoi(argv[1]);
  const int microbatches = std::atoi(argv[2]);
  const std::vector<sg::Host*> hosts = make_platform(ranks);
  Steps steps(ranks, std::vector<Step>(microbatches));
  make_activities(hosts, steps);
  add_dependencies(steps);
  for (auto& row : steps) {
    for (Step& step : row) {
      step.forward->vetoable_start();
      step.backward->vetoable_start();
      if (step.to_next) step.to_next->vetoable_start();
      if (step.to_previous) step.to_previous->vetoable_start();
    }
  }
  const std::clock_t cpu = std::clock();
  engine.run();
  const double seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  const long activities = 2L * ranks * microbatches + 2L * (ranks - 1) * microbatches;
  std::printf("step %.6f s; %ld activities in %.3f s of CPU time: %.0f/s\n", sg::Engine::get_clock(),
              activities, seconds, static_cast<double>(activities) / seconds);
  return 0;
}

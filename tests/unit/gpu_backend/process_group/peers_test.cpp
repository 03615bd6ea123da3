// How processes, which are threads here, meet before and after the steps of a run, and part.

#include "process_group/peers.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "process_group/tcp_bootstrap.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/linear_model.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using namespace std::chrono_literals;

Program one_rank_on_each(int processes) {
  return lower(generate("1f1b", {.ranks = processes, .microbatches = 2 * processes}).value(), {}).value();
}

TEST(Peers, WhoIsDoneLeavesNotBeforeProcess0HasTheResultOfAll) {
  constexpr int kProcesses = 3;
  const Program program = one_rank_on_each(kProcesses);
  auto ends = in_process_bootstraps(kProcesses).value();
  FakeGpu gpu({.devices = kProcesses, .jumps = false});
  std::vector<Expected<RunResult>> results(kProcesses);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < kProcesses; ++p) {
      threads.emplace_back([&, p] {
        FakeRunOptions options{.processes = ends[p].get()};
        options.tamper = [p](GpuApi& api) {
          api.clock.now = host_clock().now;
          if (p < 2) return;
          api.cuda.event_query = [query = api.cuda.event_query](CUevent_st* event) {
            std::this_thread::sleep_for(5ms);  // and so the others have its result late
            return query(event);
          };
        };
        results[p] = run_on_fake(gpu, program, NullModel(), options);
        if (p == 1) ends[p].reset();  // the end of a process
      });
    }
  }
  for (const auto& result : results) EXPECT_TRUE(result) << to_string(result.error());
}

TEST(Peers, WhoDoesNotComeToAgreeIsNamed) {
  const Program program = one_rank_on_each(2);
  const auto ends = in_process_bootstraps(2).value();
  RunOptions options = unverified();
  options.processes = ends[0].get();
  options.deadline_s = 0;
  options.deadline_rule.meeting_s = 0.2;
  const auto result = execute(program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_EQ(result.error().message.rfind("process 1 did not come where all processes meet", 0), 0U)
      << result.error().message;
}

/// Three processes, and the connection of process 1, which can be cut.
struct Three {
  std::vector<std::unique_ptr<Bootstrap>> ends;
  Socket connection;

  Three() {
    std::map<int, Socket> of_leader;
    std::vector<Socket> own(3);
    for (const int process : {1, 2}) {
      std::array<int, 2> pair{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
      of_leader.emplace(process, Socket(pair[0]));
      own[static_cast<std::size_t>(process)] = Socket(pair[1]);
    }
    connection = Socket(::dup(own[1].descriptor()));
    ends.push_back(std::make_unique<TcpBootstrap>(Membership{.process = 0, .size = 3}, std::move(of_leader)));
    for (const int process : {1, 2}) {
      std::map<int, Socket> to_leader;
      to_leader.emplace(0, std::move(own[static_cast<std::size_t>(process)]));
      ends.push_back(
          std::make_unique<TcpBootstrap>(Membership{.process = process, .size = 3}, std::move(to_leader)));
    }
  }
  void end_process_1() const { ::shutdown(connection.descriptor(), SHUT_RDWR); }
};

TEST(Peers, WhoSendsItsFinalStatesAndDiesIsNotCountedTwice) {
  const Program program = one_rank_on_each(3);
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  const std::vector<InstructionState> states(program.size(), InstructionState::waiting);
  const Three three;
  std::deque<Peers> peers;
  for (int p = 0; p < 3; ++p)
    peers.emplace_back(PeersSetup{program, graph, {p, p + 1}, three.ends[static_cast<std::size_t>(p)].get()});
  const Error stop = peers[0].stop({ErrorCode::io, "a failure"});
  for (Peers& peer : peers) EXPECT_EQ(peer.stop_reason().message, "process 0 (rank 0): a failure");
  peers[1].send_states(states, true);
  three.end_process_1();
  while (three.ends[0]->all_here()) std::this_thread::yield();
  peers[0].send_states(states, true);
  const std::jthread slower([&] {
    std::this_thread::sleep_for(10ms);  // there is more time
    peers[2].send_states(states, true);
  });
  const std::string text = peers[0].explained(stop).message;
  EXPECT_EQ(text.find("did not answer"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2: "), std::string::npos) << text;
}

}  // namespace
}  // namespace ppsim::test

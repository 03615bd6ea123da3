#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "process_group/tcp_bootstrap.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using Ends = std::vector<std::unique_ptr<Bootstrap>>;

/// Runs one thread for each process.
void on_each(const Ends& ends, const std::function<void(Bootstrap&)>& work) {
  std::vector<std::jthread> threads;
  for (const auto& end : ends) threads.emplace_back([&] { work(*end); });
}

TEST(Bootstrap, AllgatherGivesEveryProcessWhatAllGave) {
  const Ends ends = in_process_bootstraps(4).value();
  on_each(ends, [](Bootstrap& end) {
    for (int round = 0; round < 50; ++round) {
      const auto all = end.allgather(std::string(static_cast<std::size_t>(end.process() * round), 'x'));
      ASSERT_TRUE(all.has_value());
      ASSERT_EQ(all->size(), 4U);
      for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ((*all)[p].size(), p * static_cast<std::size_t>(round));
      EXPECT_TRUE(end.barrier().has_value());
    }
  });
}

TEST(Bootstrap, GatherGivesProcess0WhatAllGave) {
  const Ends ends = in_process_bootstraps(3).value();
  on_each(ends, [](Bootstrap& end) {
    const std::string large(3'000'000, static_cast<char>('a' + end.process()));
    const auto all = end.gather(large);
    ASSERT_TRUE(all.has_value());
    ASSERT_EQ(all->size(), end.process() == 0 ? 3U : 0U);
    if (end.process() == 0) {
      EXPECT_EQ((*all)[2], std::string(3'000'000, 'c'));
    }
  });
}

/// One of two processes, whose other one is as a process that is stopped: its connection is there.
struct BesideASilentOne {
  Socket silent;
  std::unique_ptr<Bootstrap> end;

  explicit BesideASilentOne(int process) {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    silent = Socket(pair[0]);
    std::map<int, Socket> sockets;
    sockets.emplace(1 - process, Socket(pair[1]));
    end = std::make_unique<TcpBootstrap>(Membership{.process = process, .size = 2, .local_process = process},
                                         std::move(sockets));
  }
};

TEST(Bootstrap, AStopDoesNotWaitForAProcess0ThatDoesNotAnswer) {
  const BesideASilentOne pair(1);
  pair.end->stop({ErrorCode::io, "a reason"});
  EXPECT_EQ(pair.end->gone(), std::vector<int>{0});
  const auto barrier = pair.end->barrier();
  ASSERT_FALSE(barrier);
  EXPECT_EQ(barrier.error().message, "a reason\nprocess 0 did not answer");
  EXPECT_FALSE(pair.end->resume());
}

constexpr auto kSoon = std::chrono::milliseconds(200);

TEST(Bootstrap, WhoDoesNotComeWhereAllMeetIsNamedOnAll) {
  const Ends ends = in_process_bootstraps(4).value();
  std::latch both(2);
  on_each(ends, [&](Bootstrap& end) {
    if (end.process() % 2 == 1) return;
    both.arrive_and_wait();
    const auto met = end.barrier(std::chrono::seconds(2));  // for the other one of the two, on a busy machine
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().message,
              "processes 1, 3 did not come where all processes meet: the others have waited for 2 s");
    EXPECT_FALSE(end.barrier());
  });
  EXPECT_EQ(ends[0]->gone(), (std::vector<int>{1, 3}));
  EXPECT_TRUE(ends[2]->all_here());
  EXPECT_FALSE(ends[1]->barrier()) << "it comes too late";
}

TEST(Bootstrap, AProcess0ThatDoesNotComeWhereAllMeetIsNamedOnAll) {
  const Ends ends = in_process_bootstraps(3).value();
  on_each(ends, [](Bootstrap& end) {
    if (end.process() == 0) return;
    const auto met = end.barrier(kSoon);
    ASSERT_FALSE(met);
    EXPECT_NE(met.error().message.find("process 0"), std::string::npos) << met.error().message;
    EXPECT_EQ(end.gone(), std::vector<int>{0}) << "the others have to speak for all";
  });
  EXPECT_EQ(ends[0]->gone().front(), 0) << "and it must not";
}

TEST(Bootstrap, WhoWaitsForProcess0DoesSoForAsLongAsItIsAtWork) {
  const Ends ends = in_process_bootstraps(3).value();
  on_each(ends, [](Bootstrap& end) {
    constexpr auto kTimeout = std::chrono::seconds(2);
    if (end.process() == 0) {
      const std::jthread at_work = end.at_work();
      std::this_thread::sleep_for(kTimeout + kTimeout / 2);
    }
    EXPECT_TRUE(end.barrier(kTimeout));
  });
}

TEST(Bootstrap, AProcess0ThatDoesNotAnswerIsNotWaitedFor) {
  const BesideASilentOne pair(1);
  const auto met = pair.end->barrier(kSoon);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().message.rfind("process 0 did not come", 0), 0U) << met.error().message;
  EXPECT_EQ(pair.end->gone(), std::vector<int>{0});
}

TEST(Bootstrap, AProcessThatDoesNotSayItsTimeIsNotWaitedFor) {
  const BesideASilentOne pair(0);
  const auto clocks = pair.end->clock_offsets(kSoon);
  ASSERT_FALSE(clocks);
  EXPECT_EQ(clocks.error().message.rfind("process 1 did not come", 0), 0U) << clocks.error().message;
}

TEST(Bootstrap, OneProcessIsEnough) {
  const auto end = connect_processes({}).value();
  EXPECT_EQ(end->allgather("x").value(), std::vector<std::string>{"x"});
  EXPECT_EQ(end->clock_offsets().value(), std::vector<ClockOffset>(1));
}

TEST(Bootstrap, AStopReachesEveryoneAndIsForgottenAfterResume) {
  const Ends ends = in_process_bootstraps(3).value();
  on_each(ends, [](Bootstrap& end) {
    if (end.process() == 2) end.stop({ErrorCode::deadlock, "a reason"});
    const auto first = end.barrier();
    ASSERT_FALSE(first.has_value());
    EXPECT_EQ(first.error(), (Error{ErrorCode::deadlock, "a reason"}));
    EXPECT_TRUE(end.resume().has_value());
    EXPECT_EQ(end.allgather("again").value(), std::vector<std::string>(3, "again"));
  });
}

TEST(Bootstrap, TheLeaderLeavesWithoutStoppingTheOthers) {
  struct Stops : BootstrapListener {
    std::optional<Error> on_note(int /*process*/, std::string_view /*note*/) override { return std::nullopt; }
    void on_stop(const Error& error) override { heard = error; }
    std::optional<Error> heard;
  } listener;
  Ends ends = in_process_bootstraps(3).value();
  ends[2]->listen(&listener);
  ends[0].reset();
  const auto result = ends[2]->allgather("");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "process 0 has left the run before its end");
  EXPECT_TRUE(ends[2]->all_here());
  ends[2].reset();  // after which nothing more is heard
  EXPECT_EQ(listener.heard, std::nullopt);
}

TEST(Bootstrap, WhoWakesAfterTheLeaderHasLeftHasWhatAllGave) {
  for (int round = 0; round < 50; ++round) {
    Ends ends = in_process_bootstraps(3).value();
    std::array<std::optional<Expected<std::vector<std::string>>>, 2> results;
    {
      std::vector<std::jthread> threads;
      for (const std::size_t p : {0U, 1U})
        threads.emplace_back([&, p] { results[p] = ends[p + 1]->allgather("x"); });
      EXPECT_TRUE(ends[0]->allgather("x").has_value());
      ends[0].reset();
    }
    for (const auto& result : results)
      ASSERT_EQ(result->value_or(std::vector<std::string>()), std::vector<std::string>(3, "x"))
          << "round " << round;
  }
}

TEST(Bootstrap, AProcessThatLeavesEarlyIsNamed) {
  Ends ends = in_process_bootstraps(3).value();
  ends[1].reset();
  const auto result = ends[0]->allgather("");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "process 1 has left the run before its end");
  EXPECT_TRUE(ends[0]->all_here());
}

struct Notes final : BootstrapListener {
  std::optional<Error> on_note(int process, std::string_view note) override {
    heard[process] += note;
    if (note == "stop") return Error{ErrorCode::io, "as asked"};
    return std::nullopt;
  }
  void on_stop(const Error& error) override {
    EXPECT_EQ(error.message, "as asked");
    ++stops;
    stops.notify_all();
  }
  std::map<int, std::string> heard;
  std::atomic<int> stops = 0;
};

TEST(Bootstrap, Process0HearsNotesAndMayStopAll) {
  const Ends ends = in_process_bootstraps(3).value();
  std::vector<Notes> notes(3);
  for (std::size_t p = 0; p < 3; ++p) ends[p]->listen(&notes[p]);
  ends[1]->note("a");
  ends[1]->note("stop");
  for (const auto& end : ends) EXPECT_FALSE(end->barrier().has_value());
  EXPECT_EQ(notes[0].heard, (std::map<int, std::string>{{1, "astop"}}));
  for (const Notes& heard : notes) heard.stops.wait(0);  // told by another thread than the one that waited
  for (const auto& end : ends) end->listen(nullptr);
  for (const Notes& heard : notes) EXPECT_EQ(heard.stops, 1);
}

/// A process that fails before others listen has stopped them as well: they must not wait for its stop.
TEST(Bootstrap, WhoListensAfterAStopIsToldOfIt) {
  const Ends ends = in_process_bootstraps(2).value();
  ends[1]->stop({ErrorCode::io, "as asked"});
  EXPECT_FALSE(ends[0]->barrier().has_value());
  Notes late;
  ends[0]->listen(&late);
  EXPECT_EQ(late.stops, 1);
  ends[0]->listen(nullptr);
  ASSERT_TRUE(ends[0]->resume().has_value());
  Notes after;
  ends[0]->listen(&after);
  EXPECT_EQ(after.stops, 0);
  ends[0]->listen(nullptr);
}

TEST(Bootstrap, ClocksOfOneMachineAgreeWithinWhatIsSaid) {
  const Ends ends = in_process_bootstraps(3).value();
  const auto offsets = ends[0]->clock_offsets().value();
  ASSERT_EQ(offsets.size(), 3U);
  for (const ClockOffset& offset : offsets) EXPECT_LE(std::abs(offset.offset_ns), offset.uncertainty_ns);
}

TEST(Bootstrap, TheMissingAreNamed) {
  const auto result =
      connect_processes({.process = 0, .size = 3, .host = "127.0.0.1", .port = 0, .timeout_s = 0.05});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_EQ(result.error().message, "of 3 processes these did not arrive in 0 s: 1, 2");
}

TEST(Bootstrap, NobodyListening) {
  // Port 1 of this machine is nobody's.
  const auto result =
      connect_processes({.process = 1, .size = 2, .host = "127.0.0.1", .port = 1, .timeout_s = 0.05});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("process 0 does not answer at 127.0.0.1:1"), std::string::npos);
  EXPECT_FALSE(connect_processes({.process = 2, .size = 2}).has_value());
}

Expected<Membership> membership(const std::map<std::string, std::string>& variables) {
  return membership_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Membership, OfTorchrun) {
  std::map<std::string, std::string> torch = {{"RANK", "3"},
                                              {"WORLD_SIZE", "8"},
                                              {"LOCAL_RANK", "1"},
                                              {"MASTER_ADDR", "node7"},
                                              {"MASTER_PORT", "12345"}};
  EXPECT_EQ(membership(torch).value(),
            (Membership{.process = 3, .size = 8, .local_process = 1, .host = "node7", .port = 12345}));
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // whose store has that port
  EXPECT_EQ(membership(torch).value().port, 12346);
}

TEST(Membership, OfSlurm) {
  std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_NTASKS", "32"},
      {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "77"},         {"SLURM_JOB_NODELIST", "gpu[03-04,9],other"}};
  EXPECT_EQ(
      membership(slurm).value(),
      (Membership{
          .process = 5, .size = 16, .local_process = 1, .host = "gpu03", .port = 29500, .token = "77"}));
  for (const auto& [list, host] : std::map<std::string, std::string>{
           {"a,b", "a"}, {"a", "a"}, {"n[1,3]", "n1"}, {"n[08]", "n08"}, {"n[1-2]-ib", "n1"}}) {
    slurm["SLURM_JOB_NODELIST"] = list;
    EXPECT_EQ(membership(slurm).value().host, host);
  }
}

TEST(Membership, OfTheLauncherThatAnotherOneStarted) {
  // srun has started a daemon on each of two nodes, and those the processes.
  std::map<std::string, std::string> both = {{"SLURM_PROCID", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"OMPI_COMM_WORLD_RANK", "11"},
                                             {"OMPI_COMM_WORLD_SIZE", "16"},
                                             {"MASTER_ADDR", "here"}};
  EXPECT_EQ(membership(both).value().process, 11);
  both.insert({{"RANK", "7"}, {"WORLD_SIZE", "8"}});
  EXPECT_EQ(membership(both).value().process, 7);
}

/// Where all processes are here, they meet here unless somebody says otherwise.
TEST(Membership, OfOneHostNeedsNoAddress) {
  std::map<std::string, std::string> torch = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_EQ(membership(torch).value().host, "127.0.0.1");
  torch["MASTER_ADDR"] = "node7";
  EXPECT_EQ(membership(torch).value().host, "node7");
  EXPECT_EQ(
      membership(
          {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})
          .value()
          .host,
      "127.0.0.1");
  EXPECT_NE(to_string(membership({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}).error())
                .find("no MASTER_ADDR"),
            std::string::npos);
}

TEST(Membership, IsNobodysInABatchScriptOfSlurm) {
  const std::map<std::string, std::string> script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}};
  EXPECT_NE(membership(script).error().message.find("no launcher"), std::string::npos);
}

TEST(Membership, SaysWhatIsWrong) {
  const auto message = [](const std::map<std::string, std::string>& variables) {
    return to_string(membership(variables).error());
  };
  EXPECT_NE(message({}).find("no launcher has said who this process is"), std::string::npos);
  EXPECT_NE(message({{"RANK", "0"}}).find("RANK is set and WORLD_SIZE is not"), std::string::npos);
  EXPECT_NE(message({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).find("RANK is wrong (found x"), std::string::npos);
  EXPECT_NE(message({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("a number from 0 to 1"), std::string::npos);
  EXPECT_NE(message({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).find("WORLD_SIZE is wrong"), std::string::npos);
  EXPECT_NE(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).find("no MASTER_ADDR"), std::string::npos);
  EXPECT_NE(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}})
                .find("MASTER_PORT is wrong"),
            std::string::npos);
  EXPECT_NE(message({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "-1"}, {"MASTER_ADDR", "a"}})
                .find("LOCAL_RANK is wrong"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim

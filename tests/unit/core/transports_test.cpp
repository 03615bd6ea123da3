#include "ppsim/core/ir/transports.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <utility>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

TransportCapabilities named(std::string_view name, bool compute_launches = false) {
  return transport(name, compute_launches).value();
}

bool finishes(const Program& program, const TransportCapabilities& capabilities) {
  const bool by_graph = run_order(build_execution_graph(program, capabilities)).complete;
  const NaiveRun run = run_naively(program, capabilities, CostTable());
  EXPECT_EQ(run.outcome == NaiveRun::Outcome::finished, by_graph);
  return by_graph;
}

/// Rank 0 posts RECV_B1 behind 0B0 and sends 0SEND_F1 after it: the SEND is ready, and NCCL does not launch
/// it.
Program receive_holds_a_send_back() {
  return HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "0RECV_B0@1", "0B0", "0RECV_B1@1 after 4", "0SEND_F1@0", "0B1"},
               {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1", "1B0", "1SEND_B0@1", "1B1", "1SEND_B1@1"}}}
      .build();
}

/// The same without `after`: only computation stands in between.
Program computation_holds_a_send_back() {
  return HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "0RECV_B0@1", "0B0", "0SEND_F1@0", "0RECV_B1@1", "0B1"},
               {"1RECV_F0@0", "1F0", "1B0", "1RECV_F1@0", "1F1", "1SEND_B0@1", "1B1", "1SEND_B1@1"}}}
      .build();
}

TEST(Transports, HaveNames) {
  EXPECT_EQ(named("any"), any_transport());
  for (const char* name : {"in-process", "mpi", "copy"}) EXPECT_EQ(named(name, true), rendezvous());
  EXPECT_FALSE(named("nccl").launches.compute);
  EXPECT_TRUE(named("nccl", true).guaranteed_launches.compute);
  EXPECT_TRUE(named("nccl-one-queue").launches.everything);
  EXPECT_EQ(transport_text(named("nccl")), "nccl");
  EXPECT_EQ(transport_text(named("nccl", true)), "rendezvous, launches in order, computation included");
  const auto unknown = transport("ncc");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().place.expected, "any, in-process, mpi, copy, nccl, nccl-one-queue");
}

TEST(Transports, AProofHoldsWhereEveryWaitWasConsideredAndEveryOrderIsKept) {
  const auto holds = [](const TransportCapabilities& proved, const TransportCapabilities& used) {
    return holds_under(proved, used, Claim::orders);
  };
  for (const Transport& one : transports()) {
    EXPECT_TRUE(holds(one.capabilities, one.capabilities)) << one.name;
    const bool independent = one.capabilities == rendezvous();
    EXPECT_EQ(holds(any_transport(), one.capabilities), one.name != "nccl-one-queue") << one.name;
    EXPECT_EQ(holds(rendezvous(), one.capabilities), independent) << one.name;
  }
  EXPECT_TRUE(holds(any_transport(), named("nccl", true)));
  EXPECT_FALSE(holds(named("nccl"), any_transport()));
  EXPECT_FALSE(holds(named("nccl"), named("nccl", true)));  // waits that were not considered
  EXPECT_FALSE(holds(named("nccl", true), named("nccl")));  // an order that is not kept
  EXPECT_FALSE(holds(named("nccl-one-queue"), named("nccl")));
  EXPECT_FALSE(holds(named("nccl"), rendezvous()));
}

TEST(Transports, FewerWaitsAreNoLessSafeAndKeepNoOrders) {
  const auto safe = [](const TransportCapabilities& proved, const TransportCapabilities& used) {
    EXPECT_FALSE(holds_under(proved, used, Claim::orders));
    return holds_under(proved, used, Claim::safety);
  };
  EXPECT_TRUE(safe(any_transport(), {.credits = 2}));
  EXPECT_TRUE(safe({.credits = 2}, {.credits = 3}));
  EXPECT_FALSE(safe({.credits = 2}, {.credits = 1}));
  EXPECT_FALSE(safe({.credits = 2}, rendezvous()));
  EXPECT_TRUE(safe({.issue_blocks = true}, rendezvous()));
  EXPECT_FALSE(safe(rendezvous(), {.issue_blocks = true}));
  EXPECT_TRUE(safe(named("nccl"), rendezvous()));
  EXPECT_TRUE(safe(named("nccl", true), named("nccl")));
  EXPECT_FALSE(safe(named("nccl"), named("nccl", true)));
  EXPECT_TRUE(safe(named("nccl-one-queue"), named("nccl")));
  EXPECT_FALSE(safe(named("nccl-one-queue"), any_transport()));  // whose computation completes first
  EXPECT_FALSE(safe(any_transport(), {.residency = 2}));
}

TEST(Transports, AreNamedByTheirLaunches) {
  for (const Transport& one : transports()) {
    const bool independent = one.capabilities == rendezvous();
    EXPECT_EQ(name_of(one.capabilities), independent ? "in-process" : one.name);
    EXPECT_TRUE(launches_like(one.name, one.capabilities));
    EXPECT_TRUE(launches_like(one.name, named(one.name, true)));
    EXPECT_EQ(launches_like("mpi", one.capabilities), independent);
  }
  EXPECT_EQ(name_of({.credits = 2, .launches = {LaunchOrder::start, true, false}}), "any");
  EXPECT_EQ(name_of({.launches = {LaunchOrder::completion, false, false}}), "");
  EXPECT_FALSE(launches_like("ncc", rendezvous()));
}

TEST(LaunchOrder, AReceiveThatWaitsHoldsBackALaterSend) {
  const Program program = receive_holds_a_send_back();
  EXPECT_TRUE(finishes(program, rendezvous()));
  EXPECT_FALSE(finishes(program, named("nccl")));
  EXPECT_FALSE(finishes(program, named("nccl-one-queue")));
  EXPECT_FALSE(finishes(program, any_transport()));
}

TEST(LaunchOrder, ComputationThatLaunchesCollectivesHoldsBackALaterSend) {
  const Program program = computation_holds_a_send_back();
  EXPECT_TRUE(finishes(program, rendezvous()));
  EXPECT_TRUE(finishes(program, named("nccl")));
  EXPECT_FALSE(finishes(program, named("nccl", true)));
  EXPECT_FALSE(finishes(program, named("nccl-one-queue")));
  EXPECT_FALSE(finishes(program, any_transport()));
}

TEST(LaunchOrder, AWaitNamesTheLaunchThatKeepsItBack) {
  const Program program = receive_holds_a_send_back();
  const ExecutionGraph graph = build_execution_graph(program, named("nccl"));
  const WaitAnalysis waits(program, graph, state_after(run_order(graph), program.size()));
  const auto of_send = waits.waits_of(InstructionId(6));
  ASSERT_EQ(of_send.size(), 2U);  // for 0B0, and for 0RECV_B0 before it
  EXPECT_EQ(of_send.front().reason, WaitReason::launch);
  EXPECT_EQ(to_string(in_words(program, graph, of_send.front())),
            "rank 0: 0SEND_F1 waits for rank 0: 0B0 (is launched after 0RECV_B1, which waits for it)");
  EXPECT_EQ(wait_reason_name(WaitReason::launch), "launch");
}

TEST(LaunchOrder, OnlyWhatIsNotKnownYetIsAPredecessor) {
  // 0SEND_F1 stands behind 0SEND_F0 on its queue, which waits for 0F0 already.
  const Program program = computation_holds_a_send_back();
  const ExecutionGraph graph = build_execution_graph(program, named("nccl"));
  const auto before = graph.predecessors_of(InstructionId(5));
  EXPECT_EQ(std::vector(before.begin(), before.end()), (std::vector{InstructionId(2), InstructionId(1)}));
}

Certificate certificate_of(const Program& program, const TransportCapabilities& capabilities) {
  return {.program_hash = program_hash(program),
          .capabilities_hash = capabilities_hash(capabilities),
          .capabilities = capabilities,
          .properties = {"well_formed", "matched", "deadlock_free"},
          .order = run_order(build_execution_graph(program, capabilities)).items};
}

std::string why_not(const Certificate& certificate, const Program& program) {
  const auto checked = check_certificate(certificate, program, nullptr);
  return checked ? "" : checked.error().message;
}

TEST(LaunchOrder, ACertificateOfIndependentQueuesIsNoneOfOrderedLaunches) {
  const Program program = receive_holds_a_send_back();
  Certificate certificate = certificate_of(program, rendezvous());
  EXPECT_EQ(why_not(certificate, program), "");
  certificate.capabilities = named("nccl");
  EXPECT_NE(why_not(certificate, program), "");  // the hash is another one
  certificate.capabilities_hash = capabilities_hash(named("nccl"));
  EXPECT_NE(why_not(certificate, program), "");  // its order starts what is not launched yet
  EXPECT_NE(why_not(certificate_of(program, named("nccl")), program), "");  // and there is no other
}

TEST(LaunchOrder, ACertificateMayNotRestOnOrdersThatAreNoWaits) {
  const Program program = computation_holds_a_send_back();
  TransportCapabilities forged = named("nccl");
  forged.guaranteed_launches.everything = true;
  EXPECT_NE(why_not(certificate_of(program, forged), program), "");
  Certificate limited = certificate_of(program, named("nccl"));
  EXPECT_EQ(why_not(limited, program), "");
  limited.capabilities.residency = 2;
  limited.capabilities_hash = capabilities_hash(limited.capabilities);
  EXPECT_EQ(why_not(limited, program), "certificate: a residency limit together with ordered launches");
}

TEST(LaunchOrder, ACertificateNamesNoOtherTransport) {
  const Program program = computation_holds_a_send_back();
  Certificate certificate = certificate_of(program, named("nccl"));
  for (const Transport& known : transports()) {
    certificate.transport = known.name;
    EXPECT_EQ(why_not(certificate, program) == "", known.name == "nccl") << known.name;
  }
  certificate.transport = "tcp";
  EXPECT_EQ(why_not(certificate, program),
            "certificate: it names transport tcp, and its capabilities are another's: rendezvous, launches "
            "in order");
}

TEST(LaunchOrder, ACertificateHoldsWhereNoOtherWaitsOccur) {
  const Program program = computation_holds_a_send_back();
  const auto holds = [&](const TransportCapabilities& proved, const TransportCapabilities& used) {
    return check_certificate_on(used, certificate_of(program, proved), program, nullptr).has_value();
  };
  EXPECT_TRUE(holds(named("nccl"), rendezvous()));
  EXPECT_TRUE(holds(named("nccl"), {.credits = 1}));
  EXPECT_FALSE(holds(named("nccl"), any_transport()));
  EXPECT_FALSE(holds(named("nccl"), named("nccl", true)));
  EXPECT_FALSE(holds(rendezvous(), named("nccl")));
  EXPECT_FALSE(holds({.credits = 1}, rendezvous()));
}

TEST(LaunchOrder, CertificatesSayItInTheirFile) {
  const Program program = computation_holds_a_send_back();
  for (const Transport& known : transports()) {
    Certificate certificate = certificate_of(program, rendezvous());
    certificate.capabilities = known.capabilities;
    certificate.capabilities_hash = capabilities_hash(known.capabilities);
    certificate.transport = known.name;
    const auto read = certificate_from_json(to_json(certificate), "f.cert");
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(*read, certificate) << known.name;
  }
}

/// The file of a certificate as of the version before ordered launches.
std::string of_version_2(const Certificate& certificate) {
  std::string text = to_json(certificate);
  const std::string version = "\"version\": 3";
  return text.replace(text.find(version), version.size(), "\"version\": 2");
}

TEST(LaunchOrder, AnOlderCertificateMeansIndependentQueues) {
  Certificate certificate = certificate_of(computation_holds_a_send_back(), rendezvous());
  const auto read = certificate_from_json(of_version_2(certificate), "f.cert");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, certificate);
}

TEST(LaunchOrder, AnOlderCertificateKnowsNoOrderOfLaunches) {
  const auto refusal = [](const Certificate& certificate) {
    const auto read = certificate_from_json(of_version_2(certificate), "f.cert");
    return read ? "read" : read.error().message + " " + read.error().place.found;
  };
  Certificate certificate;
  certificate.capabilities.launches = {LaunchOrder::start, false, false};
  EXPECT_EQ(refusal(certificate), "/capabilities/launches: an unknown key launches");
  certificate.capabilities.guaranteed_launches = std::exchange(certificate.capabilities.launches, {});
  EXPECT_EQ(refusal(certificate), "/capabilities/guaranteed_launches: an unknown key guaranteed_launches");
  certificate.capabilities = {};
  certificate.transport = "mpi";
  EXPECT_EQ(refusal(certificate), "/transport: an unknown key transport");
}

}  // namespace
}  // namespace ppsim::test

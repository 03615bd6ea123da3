#include "ppsim/core/ir/transports.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

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

/// Every instruction waits for earlier items of one order only, so it finishes on every transport.
Program sends_as_it_computes() {
  return HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
               {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1B0", "1SEND_B0@1", "1F1", "1B1", "1SEND_B1@1"}}}
      .build();
}

TEST(Transports, HaveNames) {
  EXPECT_EQ(named("any"), any_transport());
  for (const char* name : {"in-process", "mpi", "copy"}) EXPECT_EQ(named(name, true), rendezvous());
  EXPECT_FALSE(named("nccl").launches.compute);
  EXPECT_TRUE(named("nccl", true).guaranteed_launches.compute);
  EXPECT_TRUE(named("nccl-one-queue").launches.everything);
  EXPECT_EQ(transport_text(named("nccl")), "nccl");
  EXPECT_EQ(transport_text(named("nccl", true)), "nccl, computation included");
  TransportCapabilities buffered = named("mpi");
  buffered.credits = 1;
  EXPECT_EQ(transport_text(buffered), "in-process, mpi or copy, buffers of 1 message a channel");
  const auto unknown = transport("ncc");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().place.expected, "any, in-process, mpi, copy, nccl, nccl-one-queue");
}

TEST(Transports, OnlyNcclAndAnyAreEager) {
  for (const Transport& one : transports())
    EXPECT_EQ(one.capabilities.eager, one.name == "any" || one.name.starts_with("nccl")) << one.name;
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

TEST(Transports, WhatWasProvedForEagerSendsHoldsWithAnyCredits) {
  TransportCapabilities waiting = named("nccl");
  waiting.eager = false;
  EXPECT_TRUE(holds_under(named("nccl"), waiting, Claim::orders));
  EXPECT_FALSE(holds_under(waiting, named("nccl"), Claim::orders));
  EXPECT_TRUE(holds_under(waiting, named("nccl"), Claim::safety));
  TransportCapabilities buffered = named("nccl");
  buffered.credits = 2;
  EXPECT_TRUE(holds_under(named("nccl"), buffered, Claim::orders));
  EXPECT_TRUE(holds_under(any_transport(), {.credits = 2}, Claim::orders));
  EXPECT_FALSE(holds_under(buffered, named("nccl"), Claim::safety));
}

TEST(Transports, FewerWaitsAreNoLessSafeAndKeepNoOrders) {
  const auto safe = [](const TransportCapabilities& proved, const TransportCapabilities& used) {
    EXPECT_FALSE(holds_under(proved, used, Claim::orders));
    return holds_under(proved, used, Claim::safety);
  };
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
  EXPECT_EQ(name_of({.credits = 2, .eager = true, .launches = {LaunchOrder::start, true, false}}), "any");
  EXPECT_EQ(name_of({.launches = {LaunchOrder::start, true, false}}), "");
  EXPECT_EQ(name_of({.eager = true}), "");
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
  // 0SEND_F1 follows 0SEND_F0 on its queue, which waits for 0F0 already.
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
            "certificate: it names transport tcp, and its capabilities are another's: rendezvous, eager "
            "sends, launches "
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

/// Both ends of a wait of rule E9.
enum class Launched { communication, computation, host_copy };
constexpr Launched kLaunched[] = {Launched::communication, Launched::computation, Launched::host_copy};

/// How far the earlier of two instructions of a rank must have come, by the words of rule E9: 0 anywhere, 1
/// started, 2 complete.
int demanded(const LaunchChain& chain, Launched earlier, Launched later) {
  const auto is_in_chain = [&](Launched one) {
    return one == Launched::communication || chain.everything ||
           (one == Launched::computation && chain.compute);
  };
  if (chain.order == LaunchOrder::none || !is_in_chain(earlier) || !is_in_chain(later)) return 0;
  const bool launches_collectives = chain.compute && earlier == Launched::computation;
  return launches_collectives || chain.order == LaunchOrder::completion ? 2 : 1;
}

/// Whether each of the waits is one of the others.
bool are_among(const LaunchChain& waits, const LaunchChain& others) {
  return std::ranges::all_of(kLaunched, [&](Launched earlier) {
    return std::ranges::all_of(kLaunched, [&](Launched later) {
      return demanded(waits, earlier, later) <= demanded(others, earlier, later);
    });
  });
}

/// Each named transport, with and without computation that launches collectives.
std::vector<TransportCapabilities> all_named() {
  std::vector<TransportCapabilities> all;
  for (const Transport& known : transports()) {
    for (const bool compute_launches : {false, true}) all.push_back(named(known.name, compute_launches));
  }
  return all;
}

/// "A certificate for T holds on U if the possible waits of U are among those of T and U guarantees what T
/// guarantees."
TEST(LaunchOrder, ACertificateMovesBetweenNamedTransportsByTheRule) {
  const Program program = sends_as_it_computes();
  for (const TransportCapabilities& proved : all_named()) {
    const Certificate certificate = certificate_of(program, proved);
    ASSERT_EQ(why_not(certificate, program), "") << proved;
    for (const TransportCapabilities& used : all_named()) {
      const bool safe = are_among(used.launches, proved.launches);
      const bool kept =
          are_among(proved.guaranteed_launches, used.guaranteed_launches) && (proved.eager || !used.eager);
      EXPECT_EQ(holds_under(proved, used, Claim::safety), safe) << proved << " on " << used;
      EXPECT_EQ(holds_under(proved, used, Claim::orders), safe && kept) << proved << " on " << used;
      // It claims nothing that rests on an order.
      EXPECT_EQ(check_certificate_on(used, certificate, program, nullptr).has_value(), safe)
          << proved << " on " << used;
    }
  }
}

/// The rule refuses it: any counts the waits of computation that launches collectives, which NCCL's proof
/// without such did not look at.
TEST(LaunchOrder, ACertificateOfNcclDoesNotHoldOnAny) {
  EXPECT_EQ(demanded(any_transport().launches, Launched::computation, Launched::communication), 2);
  EXPECT_EQ(demanded(named("nccl").launches, Launched::computation, Launched::communication), 0);
  const Program program = computation_holds_a_send_back();
  EXPECT_EQ(why_not(certificate_of(program, named("nccl")), program), "");
  EXPECT_FALSE(finishes(program, any_transport()));
}

/// The items of an order with the start of one instruction put before the completion of another.
std::vector<std::uint32_t> start_before(std::vector<std::uint32_t> items, InstructionId starts,
                                        InstructionId completes) {
  std::erase(items, 2 * static_cast<std::uint32_t>(starts.value()));
  const auto place = std::ranges::find(items, 2 * static_cast<std::uint32_t>(completes.value()) + 1);
  items.insert(place, 2 * static_cast<std::uint32_t>(starts.value()));
  return items;
}

/// Each wait that only the chain brings about, broken in turn: the order of a certificate that starts earlier
/// what is launched later.
TEST(LaunchOrder, AnOrderThatMovesAnEdgeOfTheChainIsRefused) {
  const Program program = sends_as_it_computes();
  const ExecutionGraph without = build_execution_graph(program, rendezvous());
  for (const TransportCapabilities& capabilities : all_named()) {
    if (capabilities.launches == LaunchChain()) continue;
    const ExecutionGraph graph = build_execution_graph(program, capabilities);
    int moved = 0;
    for (int i = 0; i < static_cast<int>(program.size()); ++i) {
      const auto known = without.predecessors_of(InstructionId(i));
      for (const InstructionId before : graph.predecessors_of(InstructionId(i))) {
        if (std::ranges::find(known, before) != known.end()) continue;
        Certificate forged = certificate_of(program, capabilities);
        forged.order = start_before(std::move(forged.order), InstructionId(i), before);
        EXPECT_NE(why_not(forged, program).find(" starts before "), std::string::npos) << capabilities;
        ++moved;
      }
    }
    EXPECT_GT(moved, 0) << capabilities;
  }
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

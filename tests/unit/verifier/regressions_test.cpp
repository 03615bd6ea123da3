// Hangs and mismatches that were reported, see tests/data/regressions/README.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/regressions.hpp"
#include "support/tests_folder.hpp"

namespace ppsim::test {
namespace {

using Lines = std::vector<std::string>;

struct Regression {
  std::string name;
  std::string broken;  ///< how it is broken, as the file's name says
  Property refuted;
  Lines found;  ///< cycle: who waits, in turn; under a residency limit the waits; else the explanation
  std::optional<int> residency = std::nullopt;
  std::string transport = "in-process";
};

std::ostream& operator<<(std::ostream& out, const Regression& r) { return out << r.name; }

/// The rows wait for each other, or what meets differs.
std::vector<Regression> of_rows() {
  using enum Property;
  return {
      {"pytorch-172668-first", "hangs", deadlock_free, {"0SEND_F1", "1RECV_F1", "1SEND_F0", "2RECV_F0"}},
      {"pytorch-172668-second", "hangs", deadlock_free, {"0SEND_F2", "1RECV_F2", "3SEND_B0", "2RECV_B0"}},
      {"pytorch-178815", "hangs", deadlock_free, {"0SEND_F1", "1RECV_F1", "1SEND_B0", "0RECV_B0"}},
      {"pytorch-178815-order",
       "mixes-up",
       matched,
       {"rank 0: 2SEND_B0>1 meets rank 1: 3RECV_F2<2", "rank 0: 2SEND_F2>3 meets rank 1: 1RECV_B0<2"}},
      {"pytorch-174288",
       "hangs",
       deadlock_free,
       {"{0SEND_F0 0SEND_F1}", "{1RECV_F0 1RECV_F1}", "{2SEND_F2 2SEND_F3}", "{3RECV_F2 3RECV_F3}"}},
      {"pytorch-174942",
       "hangs",
       deadlock_free,
       {"{0SEND_F0 5RECV_F2}", "{4SEND_F2 1RECV_F0}", "{6SEND_F3 11RECV_F5}", "{10SEND_F5 7RECV_F3}",
        "{8SEND_F4 3RECV_F1}", "{2SEND_F1 9RECV_F4}"}},
      {"megatron-1450",
       "mixes-up",
       matched,
       {"rank 0: 2SEND_B0>1 meets rank 1: 1RECV_F1<0", "rank 0: 0SEND_F1>1 meets rank 1: 1RECV_B0<2"}},
      {"megatron-1810",
       "mixes-up",
       collective_order,
       {"collectives that meet differ: rank 0: 0COLL rank 1: 1COLL",
        "collectives that meet differ: rank 0: 1COLL rank 1: 0COLL"}},
      {"megatron-5100", "hangs", deadlock_free, {"2SEND_F1", "3RECV_F1", "3SEND_B0", "2RECV_B0"}},
      {"megatron-5240",
       "hangs",
       deadlock_free,
       {"0COLL", "0COLL", "1COLL", "1COLL", "2COLL", "2COLL", "3COLL", "3COLL"}},
      {"nccl-479", "hangs", deadlock_free, {"0SEND_F0", "1RECV_F0", "2SEND_F1", "3RECV_F1"}},
      {"nccl-2130",
       "lacks-an-end",
       deadlock_free,
       {"rank 0: {0SEND_F1 3RECV_F2} never completes (3RECV_F2 meets no SEND on its channel)"}},
      {"torchcomms-2551", "hangs", deadlock_free, {"1SEND_F1", "2RECV_F1", "2SEND_B0", "1RECV_B0"}},
      {"jaxpp-11", "hangs", deadlock_free, {"0SEND_F1", "1RECV_F1", "0COLL", "0COLL"}},
      {"marin-7655",
       "hangs",
       deadlock_free,
       {"0SEND_F1", "1RECV_F1", "1COLL", "1SEND_B0", "0RECV_B0", "0COLL"}},
  };
}

/// A rank may have so many transfers in flight.
std::vector<Regression> of_residency() {
  using enum Property;
  return {
      {"nccl-584",
       "hangs",
       deadlock_free,
       {"rank 0: 0SEND_F0 waits for rank 0: 3RECV_F1 (none of the rank's places is free before it completes)",
        "rank 0: 3RECV_F1 waits for rank 1: 2SEND_F1 (a transfer begins when both ends have started)",
        "rank 1: 2SEND_F1 waits for rank 1: 1RECV_F0 (none of the rank's places is free before it completes)",
        "rank 1: 1RECV_F0 waits for rank 0: 0SEND_F0 (a transfer begins when both ends have started)"},
       1},
      {"nccl-1347",
       "hangs",
       deadlock_free,
       {"rank 0: 0SEND_F1 waits for rank 0: 0SEND_F0 (none of the rank's places is free before it completes)",
        "rank 0: 0SEND_F0 waits for rank 2: 1RECV_F0 (a transfer begins when both ends have started)",
        "rank 2: 1RECV_F0 waits for rank 2: 1RECV_F1 (none of the rank's places is free before it completes)",
        "rank 2: 1RECV_F1 waits for rank 0: 0SEND_F1 (a transfer begins when both ends have started)"},
       1},
  };
}

/// Kernels of transfers keep a device busy that another one waits for.
std::vector<Regression> of_launches() {
  using enum Property;
  return {
      {"launch-order-forward",
       "hangs",
       deadlock_free,
       {"4RECV_F0", "3SEND_F0", "5RECV_F0", "4SEND_F0", "4F0"},
       std::nullopt,
       "nccl"},
      {"launch-order-groups",
       "hangs",
       deadlock_free,
       {"{0RECV_B2 0RECV_B0}", "{1SEND_B2 1SEND_B0}", "{1RECV_F2 1RECV_F1}", "{0SEND_F2 0SEND_F1}"},
       std::nullopt,
       "nccl"},
      {"launch-order-receives",
       "hangs",
       deadlock_free,
       {"0RECV_B1", "1SEND_B1", "1B1", "1R1", "1F1", "1RECV_F1", "0SEND_F1"},
       std::nullopt,
       "nccl"},
      {"launch-order-sends",
       "hangs",
       deadlock_free,
       {"0RECV_B0", "1SEND_B0", "1SEND_F0", "1F0", "1RECV_F0", "0SEND_F0"},
       std::nullopt,
       "nccl"},
      {"one-queue-send",
       "hangs",
       deadlock_free,
       {"0RECV_B0", "1SEND_B0", "1B0", "1F1", "1RECV_F1", "0SEND_F1"},
       std::nullopt,
       "nccl-one-queue"},
  };
}

std::vector<Regression> regressions() {
  std::vector<Regression> all = of_rows();
  for (const auto& part : {of_residency(), of_launches()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::filesystem::path folder() { return test::tests_folder() / "data" / "regressions"; }

class Regressions : public testing::TestWithParam<Regression> {
 protected:
  [[nodiscard]] static VerifyOptions options() {
    VerifyOptions options;
    options.capabilities = transport(GetParam().transport).value();
    options.capabilities.residency = GetParam().residency;
    return options;
  }
  [[nodiscard]] static Program broken() { return read_regression(GetParam().name + "-" + GetParam().broken); }
};

/// Who waits on the cycle, in turn; under a residency limit who waits for whom; else the explanation.
Lines found_in(const Program& program, const TransportCapabilities& capabilities,
               const Counterexample& counterexample) {
  if (const auto* hang = std::get_if<ResidencyHang>(&counterexample)) {
    Lines waits;
    for (const Wait& wait : hang->waits) waits.push_back(to_string(wait));
    return waits;
  }
  const auto* deadlock = std::get_if<Deadlock>(&counterexample);
  if (deadlock == nullptr || deadlock->cycle.empty()) return explain(program, counterexample);
  const auto genuine = recheck_cycle(program, build_execution_graph(program, capabilities), deadlock->cycle);
  EXPECT_TRUE(genuine.has_value()) << to_string(genuine.error());
  Lines who;
  for (const Wait& wait : deadlock->cycle) who.push_back(wait.who.action);
  return who;
}

TEST_P(Regressions, AreRefutedAsTheyWereReported) {
  const Program program = broken();
  const VerifyReport report = verify(program, options());
  const auto* refuted = std::get_if<Refuted>(&report.find(GetParam().refuted)->verdict);
  ASSERT_NE(refuted, nullptr);
  EXPECT_EQ(found_in(program, options().capabilities, refuted->counterexample), GetParam().found);
}

TEST_P(Regressions, AreProvedOnceTheyAreFixed) {
  EXPECT_TRUE(verify(read_regression(GetParam().name + "-runs"), options()).all_proved());
}

TEST_P(Regressions, AreRepairedWhereAnOrderIsAtFault) {
  const RepairAnswer answer = repair(broken(), {.verify = options()});
  if (GetParam().residency) {
    EXPECT_TRUE(std::holds_alternative<Unknown>(answer));
  } else if (GetParam().broken != "hangs" && GetParam().name != "pytorch-178815-order") {
    EXPECT_FALSE(std::get<NoRepair>(answer).why.empty());
  } else {
    EXPECT_TRUE(std::get<Repaired>(answer).report.all_proved());
  }
}

INSTANTIATE_TEST_SUITE_P(Reported, Regressions, testing::ValuesIn(regressions()), [](const auto& of) {
  std::string name = of.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(RegressionFiles, AreAllTestedAndListed) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    files += entry.path().extension() == ".json" ? 1 : 0;
  EXPECT_EQ(files, 2 * regressions().size());
  std::ifstream in(folder() / "README.md");
  const std::string listed{std::istreambuf_iterator<char>(in), {}};
  for (const Regression& r : regressions())
    EXPECT_NE(listed.find("`" + r.name + "`"), std::string::npos) << r.name;
}

}  // namespace
}  // namespace ppsim::test

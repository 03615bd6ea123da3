// Messages and sums of one size that change places in NCCL: the fake names the two that meet.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

/// The communication of two actions of one rank that changes places.
struct Swap {
  std::string first;
  std::string second;
};

/// Swaps the NCCL operations of two actions: those of the first come after those of the second.
class SwappedOperations {
 public:
  explicit SwappedOperations(Swap swap) : swap_(std::move(swap)) {}

  void operator()(GpuApi& api) {
    marks_ = api.marks;
    nccl_ = api.nccl;
    mark_.watch(api);
    hold(api.nccl.send);
    hold(api.nccl.receive);
    hold(api.nccl.all_reduce);
    api.nccl.group_start = [this] {
      ++depth_;
      return nccl_.group_start();
    };
    api.nccl.group_end = [this] {
      --depth_;
      if (mark_.in_action(swap_.second)) release();
      return nccl_.group_end();
    };
  }

 private:
  template <class... A>
  void hold(std::function<int(A...)>& call) {
    call = [this, real = call](A... arguments) {
      ncclComm* const one = std::get<ncclComm*>(std::tuple(arguments...));
      if (mark_.in_action(swap_.first) && (held_.empty() || one == communicator_)) {
        held_.push_back([=] { real(arguments...); });
        communicator_ = one;
        return kNcclSuccess;
      }
      if (!mark_.in_action(swap_.second) || one != communicator_ || depth_ > 0) return real(arguments...);
      nccl_.group_start();
      real(arguments...);
      release();
      return nccl_.group_end();
    };
  }
  void release() {
    marks_.push(("PP:" + swap_.first).c_str());
    for (const auto& call : held_) call();
    marks_.pop();
  }

  Swap swap_;
  StepMark mark_;
  MarkTable marks_;  ///< those of the fake
  NcclTable nccl_;   ///< likewise
  int depth_ = 0;
  std::vector<std::function<void()>> held_;
  ncclComm* communicator_ = nullptr;
};

Tampered run_swapped(const Program& program, const Swap& swap) {
  SwappedOperations operations(swap);
  return run_tampered(program, [&](GpuApi& api) { operations(api); });
}

struct PairCase {
  Swap swap;
  std::string first;  ///< the two ends as the fake's message names them
  std::string second;
};

TEST(StrictFakePairs, NamesMessagesThatChangePlaces) {
  for (const auto& [swap, one, other] : {PairCase{{"0SEND_F0", "0SEND_F1"}, "0SEND_F1", "1RECV_F0"},
                                         PairCase{{"1RECV_F0", "1RECV_F1"}, "0SEND_F0", "1RECV_F1"},
                                         PairCase{{"1SEND_B0", "1SEND_B1"}, "1SEND_B1", "0RECV_B0"},
                                         PairCase{{"0RECV_B1", "0RECV_B2"}, "1SEND_B1", "0RECV_B2"}}) {
    const Tampered run = run_swapped(small_program(), swap);
    EXPECT_TRUE(run.found(FaultKind::mismatched_ends, one + " of PP:" + one)) << text_of(run);
    EXPECT_TRUE(run.found(FaultKind::mismatched_ends, " meets " + other + " of PP:")) << text_of(run);
  }
}

/// Two groups of two messages each way.
Program grouped() {
  using enum OpKind;
  ProgramDraft draft;
  draft.communicators = {{"0>1", {RankId(0), RankId(1)}, -1}};
  const auto pair = [](OpKind kind, int stage, int mb) {
    return group(
        {{make_transfer(kind, stage, mb, 1 - stage), 0}, {make_transfer(kind, stage, mb + 1, 1 - stage), 0}});
  };
  for (int r = 0; r < 2; ++r) draft.rows.push_back({});
  for (int mb = 0; mb < 4; ++mb) draft.rows[RankId(0)].push_back(one(make_action(forward, 0, mb)));
  for (const int mb : {0, 2}) {
    draft.rows[RankId(0)].push_back(pair(send_forward, 0, mb));
    draft.rows[RankId(1)].push_back(pair(recv_forward, 1, mb));
  }
  for (int mb = 0; mb < 4; ++mb) draft.rows[RankId(1)].push_back(one(make_action(forward, 1, mb)));
  return program(chain(2, 2, 4), std::move(draft));
}

TEST(StrictFakePairs, NamesMembersOfGroupsThatChangePlaces) {
  const Swap sends{"{0SEND_F0 0SEND_F1}", "{0SEND_F2 0SEND_F3}"};
  const Tampered nccl = run_swapped(grouped(), sends);
  EXPECT_TRUE(nccl.found(FaultKind::mismatched_ends, "0SEND_F3 of PP:{0SEND_F2 0SEND_F3}")) << text_of(nccl);
  EXPECT_TRUE(nccl.found(FaultKind::mismatched_ends, " meets 1RECV_F1 of PP:{1RECV_F0 1RECV_F1}"))
      << text_of(nccl);
}

/// Both directions of Chimera share their weights: every rank sums the gradients of two blocks, here in one
/// communicator.
Program two_sums() {
  LoweringOptions lowering;
  lowering.reduce_grad = true;
  const Program lowered =
      lower(generate("chimera", {.ranks = 2, .microbatches = 2}).value(), lowering).value();
  ProgramDraft draft = to_draft(lowered);
  const auto sums = CommunicatorId(static_cast<std::int32_t>(draft.communicators.size()));
  draft.communicators.push_back({"sums", {RankId(0), RankId(1)}, -1});
  for (auto& row : draft.rows) {
    for (InstructionDraft& one : row) {
      if (one.actions.front().kind == OpKind::reduce_grad) one.communicators.front() = sums;
    }
  }
  return program(lowered.pipeline(), std::move(draft));
}

TEST(StrictFakePairs, NamesSumsThatChangePlaces) {
  const Swap swap{"1REDUCE_GRAD", "0REDUCE_GRAD"};
  const Tampered run = run_swapped(two_sums(), swap);
  EXPECT_TRUE(run.found(FaultKind::mismatched_ends, "0REDUCE_GRAD")) << text_of(run);
  EXPECT_TRUE(run.found(FaultKind::mismatched_ends, "1REDUCE_GRAD")) << text_of(run);
}

}  // namespace
}  // namespace ppsim::test

// Waits that a step leaves out, each in turn: the fake names a race for every one that anything depends on.

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/tampered.hpp"

namespace ppsim::test {
namespace {

/// A wait of an action, for an event or for a number.
struct Wait {
  std::string action;
  bool for_number = false;
};

/// Notes the waits of all actions of a step, run or captured, and leaves one of them out.
class LeftOut {
 public:
  LeftOut(int number, std::vector<Wait>& waits) : number_(number), waits_(waits) {}

  void operator()(GpuApi& api) {
    mark_.watch(api);
    api.cuda.capture_begin = [this, begin = api.cuda.capture_begin](CUstream_st* stream, int mode) {
      captures_ = true;
      return begin(stream, mode);
    };
    api.cuda.capture_end = [this, end = api.cuda.capture_end](CUstream_st* stream, CUgraph_st** graph) {
      captures_ = false;
      return end(stream, graph);
    };
    api.cuda.stream_wait_event = [this, wait = api.cuda.stream_wait_event](
                                     CUstream_st* stream, CUevent_st* event, unsigned int flags) {
      return left_out(false) ? kCudaSuccess : wait(stream, event, flags);
    };
    api.cuda.stream_wait_value = [this, wait = api.cuda.stream_wait_value](
                                     CUstream_st* stream, CudaAddress address, CudaValue value,
                                     unsigned int flags) {
      return left_out(true) ? kCudaSuccess : wait(stream, address, value, flags);
    };
  }

 private:
  bool left_out(bool for_number) {
    const bool captured = captures_ && !mark_.open->empty();
    if (!captured && !mark_.in_action()) return false;
    waits_.push_back({mark_.open->back(), for_number});
    return static_cast<int>(waits_.size()) == number_ + 1;
  }

  int number_;
  std::vector<Wait>& waits_;
  StepMark mark_;
  bool captures_ = false;
};

Tampered leave_out(const Program& program, const CudaOptions& cuda, int number, std::vector<Wait>& waits) {
  LeftOut tamper(number, waits);
  return run_tampered(
      program, [&](GpuApi& api) { tamper(api); }, cuda);
}

/// The waits that may be left out without anything to be named.
std::vector<Wait> harmless(const Program& program, const CudaOptions& cuda) {
  std::vector<Wait> waits;
  const Tampered whole = leave_out(program, cuda, -1, waits);
  EXPECT_TRUE(whole.result && whole.faults.empty()) << text_of(whole);
  EXPECT_GT(waits.size(), 8U);
  std::vector<Wait> found;
  for (std::size_t n = 0; n < waits.size(); ++n) {
    std::vector<Wait> ignored;
    const Tampered run = leave_out(program, cuda, static_cast<int>(n), ignored);
    if (!run.found(FaultKind::race) && !run.found(FaultKind::never_written)) found.push_back(waits[n]);
  }
  return found;
}

/// Sorted: graphs are captured interleaved over the ranks.
std::string text_of(const std::vector<Wait>& waits) {
  std::multiset<std::string> lines;
  for (const Wait& wait : waits)
    lines.insert(wait.action + (wait.for_number ? " for a number\n" : " for an event\n"));
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

CudaOptions mode(CudaTransport transport, bool graphs) {
  return {.transport = transport, .graphs = graphs, .host_threads = false};
}

TEST(StrictFakeWaits, NamesARaceForEveryOneWithNccl) {
  for (const bool graphs : {false, true})
    EXPECT_EQ(text_of(harmless(small_program(), mode(CudaTransport::nccl, graphs))), "") << graphs;
}

/// Whether memory is free is asked for nothing where no action before has used it.
TEST(StrictFakeWaits, NamesARaceForEveryOneWithCopyEnginesButForMemoryThatIsNew) {
  for (const bool graphs : {false, true}) {
    EXPECT_EQ(text_of(harmless(small_program(), mode(CudaTransport::copy, graphs))),
              "PP:0SEND_F0 for a number\nPP:0SEND_F1 for a number\nPP:0SEND_F2 for a number\n"
              "PP:1SEND_B0 for a number\nPP:1SEND_B1 for a number\nPP:1SEND_B2 for a number\n")
        << graphs;
  }
}

/// With one buffer for each channel the memory of a RECV was another one's before, but for the first ones.
TEST(StrictFakeWaits, NamesARaceForASendThatDoesNotWaitForItsReceiver) {
  LoweringOptions lowering;
  lowering.receive_buffers = 1;
  const Program program = lower(generate("gpipe", {.ranks = 2, .microbatches = 6}).value(), lowering).value();
  for (const bool graphs : {false, true}) {
    EXPECT_EQ(text_of(harmless(program, mode(CudaTransport::copy, graphs))),
              "PP:0RECV_B2 for an event\nPP:0SEND_F0 for a number\n"
              "PP:1SEND_B0 for a number\nPP:1SEND_B2 for a number\n")
        << graphs;
  }
}

/// The lowest rank waits last for the others to have copied the sum, before it would write there again.
TEST(StrictFakeWaits, NamesARaceForEveryOneOfASumButThatBeforeTheNext) {
  LoweringOptions lowering;
  lowering.reduce_grad = true;
  const Program program =
      lower(generate("chimera", {.ranks = 2, .microbatches = 2}).value(), lowering).value();
  for (const bool graphs : {false, true}) {
    EXPECT_EQ(text_of(harmless(program, mode(CudaTransport::copy, graphs))),
              "PP:0REDUCE_GRAD for a number\nPP:0SEND_F0 for a number\nPP:1REDUCE_GRAD for a number\n"
              "PP:1SEND_B0 for a number\nPP:2SEND_F1 for a number\nPP:3SEND_B1 for a number\n")
        << graphs;
  }
}

}  // namespace
}  // namespace ppsim::test

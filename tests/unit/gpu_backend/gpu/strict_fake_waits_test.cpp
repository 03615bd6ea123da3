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

/// Notes the actions of all waits of a step, run or captured, and leaves one of them out.
class LeftOut {
 public:
  LeftOut(int number, std::vector<std::string>& waits) : number_(number), waits_(waits) {}

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
      return left_out() ? kCudaSuccess : wait(stream, event, flags);
    };
  }

 private:
  bool left_out() {
    const bool captured = captures_ && !mark_.open->empty();
    if (!captured && !mark_.in_action()) return false;
    waits_.push_back(mark_.open->back());
    return static_cast<int>(waits_.size()) == number_ + 1;
  }

  int number_;
  std::vector<std::string>& waits_;
  StepMark mark_;
  bool captures_ = false;
};

Tampered leave_out(const Program& program, const CudaOptions& cuda, int number,
                   std::vector<std::string>& waits) {
  LeftOut tamper(number, waits);
  return run_tampered(
      program, [&](GpuApi& api) { tamper(api); }, cuda);
}

/// The waits that may be left out without anything to be named.
std::vector<std::string> harmless(const Program& program, const CudaOptions& cuda) {
  std::vector<std::string> waits;
  const Tampered whole = leave_out(program, cuda, -1, waits);
  EXPECT_TRUE(whole.result && whole.faults.empty()) << text_of(whole);
  EXPECT_GT(waits.size(), 8U);
  std::vector<std::string> found;
  for (std::size_t n = 0; n < waits.size(); ++n) {
    std::vector<std::string> ignored;
    const Tampered run = leave_out(program, cuda, static_cast<int>(n), ignored);
    if (!run.found(FaultKind::race) && !run.found(FaultKind::never_written)) found.push_back(waits[n]);
  }
  return found;
}

/// Sorted: graphs are captured interleaved over the ranks.
std::string text_of(const std::vector<std::string>& waits) {
  std::multiset<std::string> lines;
  for (const std::string& action : waits) lines.insert(action + "\n");
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
              "PP:0SEND_F0\nPP:0SEND_F1\nPP:0SEND_F2\n"
              "PP:1SEND_B0\nPP:1SEND_B1\nPP:1SEND_B2\n")
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
              "PP:0RECV_B2\nPP:0SEND_F0\n"
              "PP:1SEND_B0\nPP:1SEND_B2\n")
        << graphs;
  }
}

/// Nothing in the step reads the sums: who gets one may go on before it is there.
TEST(StrictFakeWaits, NamesARaceForEveryOneOfASumButThoseForTheSumItself) {
  LoweringOptions lowering;
  lowering.reduce_grad = true;
  const Program program =
      lower(generate("chimera", {.ranks = 2, .microbatches = 2}).value(), lowering).value();
  for (const bool graphs : {false, true}) {
    EXPECT_EQ(text_of(harmless(program, mode(CudaTransport::copy, graphs))),
              "PP:0REDUCE_GRAD\nPP:0SEND_F0\nPP:1REDUCE_GRAD\n"
              "PP:1SEND_B0\nPP:2SEND_F1\nPP:3SEND_B1\n")
        << graphs;
  }
}

}  // namespace
}  // namespace ppsim::test

// The steps of a rank as graphs.

#include <algorithm>
#include <utility>

#include "rank_run.hpp"

namespace ppsim::gpu_backend {

void RankRun::begin_capture(bool takes) {
  in_.device.make_current();
  in_.device.check(in_.device.cuda().capture_begin(compute_stream(), kCudaCaptureThreadLocal),
                   "capturing a step");
  capturing_ = true;
  fork();
  begin_pass(takes);
}

void RankRun::join_capture(const RankRun& leader, bool takes) {
  in_.device.make_current();
  in_.device.wait(compute_stream(), leader.fork_.get());
  leader_ = &leader;
  capturing_ = true;
  fork();
  begin_pass(takes);
}

void RankRun::leave_capture(const RankRun& leader) {
  in_.device.make_current();
  in_.device.record(fork_.get(), compute_stream());
  leader.in_.device.make_current();
  leader.in_.device.wait(leader.compute_stream(), fork_.get());
  capturing_ = false;
  stage_ = Stage::idle;
}

void RankRun::end_capture() {
  const CudaTable& cuda = in_.device.cuda();
  in_.device.make_current();
  CUgraph_st* captured = nullptr;
  capturing_ = false;
  const int result = cuda.capture_end(compute_stream(), &captured);
  capture_ = {captured, [&cuda](CUgraph_st* g) { cuda.graph_destroy(g); }};
  in_.device.check(result, "capturing a step");
  stage_ = Stage::idle;
}

void RankRun::make_graph(bool takes) {
  if (leader_ != nullptr) return;
  const CudaTable& cuda = in_.device.cuda();
  in_.device.make_current();
  CUgraphExec_st* executable = nullptr;
  const GpuHandle<CUgraph_st> graph = std::exchange(capture_, nullptr);
  // Else all nodes have the priority of the stream that the graph is launched to.
  in_.device.check(cuda.graph_instantiate(&executable, graph.get(), kCudaGraphUseNodePriority),
                   "making a graph of a step");
  graphs_[takes ? 1 : 0] = {executable, [&cuda](CUgraphExec_st* g) { cuda.graph_executable_destroy(g); }};
  in_.device.check(cuda.graph_upload(executable, compute_stream()), "making a graph of a step");
  in_.device.record(ended_.get(), compute_stream());
}

void RankRun::abandon_capture() noexcept {
  capture_.reset();
  if (!std::exchange(capturing_, false) || leader_ != nullptr) return;
  const CudaTable& cuda = in_.device.cuda();
  CUgraph_st* captured = nullptr;
  cuda.capture_end(compute_stream(), &captured);
  if (captured != nullptr) cuda.graph_destroy(captured);
}

void RankRun::drop_graphs() noexcept {
  for (GraphHandle& graph : graphs_) graph.reset();
}

void RankRun::begin_graph(bool takes) {
  std::ranges::fill(progress_, 0);
  launch_graph(takes);
  host_.actions += listed_;
  stage_ = Stage::issued;
}

void RankRun::launch_graph(bool takes) {
  CUgraphExec_st* const graph = graphs_[takes && graphs_[1] != nullptr ? 1 : 0].get();
  in_.device.check(in_.device.cuda().graph_launch(graph, compute_stream()), "launching a step");
  in_.device.record(ended_.get(), compute_stream());
}

void RankRun::await_leader() {
  const Nanoseconds begin = in_.api.clock.now();
  begin_on_clock();
  std::ranges::fill(progress_, 0);
  host_.issue_ns += in_.api.clock.now() - begin;
}

void RankRun::begin_after(const RankRun& other) {
  const Nanoseconds begin = in_.api.clock.now();
  in_.device.make_current();
  in_.device.wait(compute_stream(), other.started_.get());
  host_.issue_ns += in_.api.clock.now() - begin;
}

void RankRun::follow_leader() {
  const Nanoseconds begin = in_.api.clock.now();
  in_.device.make_current();
  in_.device.wait(compute_stream(), leader_->ended_.get());
  in_.device.record(ended_.get(), compute_stream());
  host_.actions += listed_;
  stage_ = Stage::issued;
  host_.issue_ns += in_.api.clock.now() - begin;
}

}  // namespace ppsim::gpu_backend

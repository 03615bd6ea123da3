// The host cost of a run on GPUs, and its limits: the strict fake counts.

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "device/cuda/held_contexts.hpp"
#include "executor/gpu/gpu_ranks.hpp"
#include "executor/gpu/streams/hardware_queues.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/tampered.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

Program host_path_program(const std::string& schedule, int ranks, int microbatches, bool trains = false) {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = trains;
  return lower(generate(schedule, {.ranks = ranks, .microbatches = microbatches}).value(), options).value();
}

/// The books of a run in which nothing is wrong.
FakeBooks books_of(const Program& program, const CudaOptions& cuda = {.host_threads = false}) {
  FakeGpu gpu(devices_for(program));
  const auto result = run_on_fake(gpu, program, NullModel(), {.cuda = cuda, .steps = 2});
  EXPECT_TRUE(result) << to_string(result.error());
  for (const Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
  return gpu.books();
}

TEST(GpuHostPath, NoGroupCostsAThreadOrAPoll) {
  for (const bool graphs : {false, true}) {
    const FakeBooks books =
        books_of(host_path_program("1f1b", 4, 8), {.graphs = graphs, .host_threads = false});
    EXPECT_EQ(books.all.threads, 0U);
    EXPECT_EQ(books.all.polls, 0U);
  }
}

TEST(GpuHostPath, AnActionLaunchesWhatItIsAndAStepMakesNothing) {
  const FakeBooks books = books_of(host_path_program("chimera", 4, 8, true));
  EXPECT_EQ(books.in_steps.splits, 0U);
  EXPECT_EQ(books.in_steps.allocations, 0U);
  EXPECT_EQ(books.in_steps.threads, 0U);
  EXPECT_EQ(books.of_actions.at("PP:0SEND_F0").launches, 2U) << "one in each of two steps";
}

TEST(GpuHostPath, FourSplitsMakeTheCommunicatorsOfAChain) {
  for (const int ranks : {2, 3, 8, 64}) {
    const std::size_t splits = books_of(host_path_program("1f1b", ranks, 2)).all.splits;
    EXPECT_LE(splits, static_cast<std::size_t>(4 * ranks))
        << ranks << " ranks, all of which take part in each";
  }
}

/// The type and the size of every sum, by its communicator.
struct Sums {
  std::mutex mutex;
  std::set<std::tuple<ncclComm*, int, std::size_t>> before_steps;
  std::set<std::tuple<ncclComm*, int, std::size_t>> in_steps;

  void watch(GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    api.nccl.all_reduce = [this, mark, real = api.nccl.all_reduce](const void* from, void* to,
                                                                   std::size_t count, int type, int operation,
                                                                   ncclComm* one, CUstream_st* stream) {
      (mark.in_action() ? in_steps : before_steps).emplace(one, type, count);
      return real(from, to, count, type, operation, one, stream);
    };
  }
};

TEST(GpuHostPath, TheWarmUpSumsWhatStepsSumAndNothingElse) {
  for (const bool trains : {false, true}) {
    const Program program = host_path_program("chimera", 4, 8, trains);
    Sums sums;
    FakeGpu gpu(devices_for(program));
    const auto result =
        run_on_fake(gpu, program, NullModel(), {.tamper = [&](GpuApi& api) { sums.watch(api); }});
    ASSERT_TRUE(result) << to_string(result.error());
    for (const Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
    EXPECT_EQ(sums.before_steps, sums.in_steps);
    EXPECT_EQ(sums.in_steps.empty(), !trains);
  }
}

/// A communicator that shares resources with another would end with it, and its kernels would wait for those
/// of the other.
TEST(GpuHostPath, CommunicatorsShareNothing) {
  const Program program = host_path_program("chimera", 4, 8, true);
  std::multiset<int> shares;
  FakeRunOptions options;
  options.tamper = [&](GpuApi& api) {
    api.nccl.communicator_split = [&, real = api.nccl.communicator_split](ncclComm* parent, int color,
                                                                          int key, ncclComm** child,
                                                                          NcclConfig* config) {
      shares.insert(config->split_share);
      return real(parent, color, key, child, config);
    };
  };
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
  EXPECT_FALSE(shares.empty());
  EXPECT_EQ(shares.count(0), shares.size());
}

/// A sum takes as many multiprocessors as NCCL chooses; receives that are posted early stay resident.
TEST(GpuHostPath, CommunicatorsOfMessagesAloneAreCapped) {
  const Program program = host_path_program("chimera", 4, 8, true);
  std::map<ncclComm**, int> caps;
  std::set<ncclComm*> sum;
  std::set<ncclComm*> move;
  std::map<ncclComm*, int> of;
  FakeRunOptions options;
  options.tamper = [&](GpuApi& api) {
    api.nccl.communicator_split = [&, real = api.nccl.communicator_split](ncclComm* parent, int color,
                                                                          int key, ncclComm** child,
                                                                          NcclConfig* config) {
      caps[child] = config->max_ctas;
      return real(parent, color, key, child, config);
    };
    api.marks.push = [&, real = api.marks.push](const char* name) {
      for (const auto& [child, cap] : caps) of[*child] = cap;
      caps.clear();
      real(name);
    };
    api.nccl.all_reduce = [&, real = api.nccl.all_reduce](const void* from, void* to, std::size_t count,
                                                          int type, int operation, ncclComm* one,
                                                          CUstream_st* stream) {
      sum.insert(one);
      return real(from, to, count, type, operation, one, stream);
    };
    api.nccl.send = [&, real = api.nccl.send](const void* from, std::size_t count, int type, int peer,
                                              ncclComm* one, CUstream_st* stream) {
      move.insert(one);
      return real(from, count, type, peer, one, stream);
    };
  };
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
  ASSERT_FALSE(sum.empty());
  ASSERT_FALSE(move.empty());
  for (ncclComm* const one : sum) EXPECT_EQ(of.at(one), move.contains(one) ? 4 : INT_MIN);
  for (ncclComm* const one : move) EXPECT_EQ(of.at(one), sum.contains(one) ? INT_MIN : 4);
}

TEST(GpuHostPath, EveryStreamButComputeHasTheHighestPriority) {
  const Program program = host_path_program("1f1b", 3, 3);
  for (const auto transport : {CudaTransport::nccl, CudaTransport::copy}) {
    std::multiset<int> priorities;
    std::multiset<CudaFlags> graphs;
    FakeRunOptions options{.cuda = {.transport = transport, .graphs = true, .host_threads = false}};
    options.tamper = [&](GpuApi& api) {
      api.cuda.stream_create = [&, real = api.cuda.stream_create](CUstream_st** out, unsigned int flags,
                                                                  int priority) {
        priorities.insert(priority);
        return real(out, flags, priority);
      };
      api.cuda.graph_instantiate = [&, real = api.cuda.graph_instantiate](
                                       CUgraphExec_st** out, CUgraph_st* graph, CudaFlags flags) {
        graphs.insert(flags);
        return real(out, graph, flags);
      };
    };
    FakeGpu gpu(devices_for(program));
    ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
    EXPECT_EQ(priorities.count(0), 3U) << "the compute stream of each rank";
    EXPECT_EQ(priorities.count(kHighestPriority), priorities.size() - 3);
    constexpr CudaFlags kUseNodePriority = 8;  // CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
    EXPECT_EQ(graphs.count(kUseNodePriority), graphs.size()) << "else nodes run with that of the launch";
  }
}

TEST(GpuHostPath, WhoeverMakesCommunicatorsOrdersTheirLaunches) {
  const Program program = host_path_program("1f1b", 2, 2);
  EnvironmentTable environment;
  FakeRunOptions options{.tamper = [&](GpuApi& api) { environment = api.environment; }};
  FakeGpu gpu(devices_for(program));
  ASSERT_TRUE(run_on_fake(gpu, program, NullModel(), options));
  EXPECT_EQ(environment.get("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  options.tamper = [](GpuApi& api) { api.environment.set("NCCL_LAUNCH_ORDER_IMPLICIT", "0"); };
  FakeGpu other(devices_for(program));
  const auto result = run_on_fake(other, program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  EXPECT_EQ(result.error().message,
            "several communicators on a device need NCCL's launch order (found "
            "NCCL_LAUNCH_ORDER_IMPLICIT=0, expected NCCL_LAUNCH_ORDER_IMPLICIT=1, or unset)");
}

TEST(GpuHostPath, FewerHardwareQueuesThanStreamsAreRefused) {
  const Program program = host_path_program("1f1b", 3, 3);
  const auto run_with = [&](const std::string& queues, const CudaOptions& cuda) {
    FakeGpu gpu(devices_for(program));
    const auto result =
        run_on_fake(gpu, program, NullModel(), {.cuda = cuda, .tamper = [&](GpuApi& api) {
                                                  api.environment.set("CUDA_DEVICE_MAX_CONNECTIONS", queues);
                                                }});
    EXPECT_FALSE(gpu.found(FaultKind::leak));
    return result ? "" : result.error().message;
  };
  const CudaOptions streamed{.host_threads = false};
  EXPECT_EQ(run_with("32", streamed), "");
  EXPECT_EQ(run_with("5", streamed), "");
  const std::string rest =
      " has 5 streams, and of those that share a hardware queue one that waits holds up the others (found "
      "CUDA_DEVICE_MAX_CONNECTIONS=";
  EXPECT_EQ(run_with("4", streamed),
            "rank 1" + rest + "4, expected at least 5, or 1 with a proof for nccl-one-queue)");
  EXPECT_NE(run_with("1", streamed), "");
  EXPECT_NE(run_with("many", streamed), "");
  EXPECT_EQ(run_with("1", {.host_threads = false, .one_hardware_queue = true}), "");
  EXPECT_EQ(run_with("4096", streamed), "");
  // Copies wait for nothing that is enqueued later.
  for (const bool graphs : {false, true}) {
    CudaOptions copies{.transport = CudaTransport::copy, .graphs = graphs, .host_threads = false};
    EXPECT_EQ(run_with("4", copies), "");
    copies.one_hardware_queue = true;
    EXPECT_EQ(run_with("1", copies), "");
  }
}

/// A rank that talks to eighteen others has more streams than CUDA has hardware queues.
TEST(GpuHostPath, NoNumberOfHardwareQueuesIsMoreThanCudaHas) {
  StreamPlan plan;
  for (int queue = 0; queue < 37; ++queue) plan.queues.push_back(queue);
  const auto refusal = [&](const std::string& queues, CudaTransport transport) -> std::string {
    FakeGpu gpu({.devices = 1});
    const GpuApi api = gpu.api();
    api.environment.set("CUDA_DEVICE_MAX_CONNECTIONS", queues);
    try {
      check_hardware_queues(api.environment, {.transport = transport}, {plan}, RankId(3));
    } catch (const BackendError& failure) {
      return failure.error().message;
    }
    return "";
  };
  for (const std::string queues : {"32", "64"}) {
    EXPECT_EQ(refusal(queues, CudaTransport::nccl),
              "rank 3 has 37 streams, and of those that share a hardware queue one that waits holds up the "
              "others (found CUDA_DEVICE_MAX_CONNECTIONS=" +
                  queues +
                  ", expected a Program with fewer communicators on a rank, or copies in place of NCCL: CUDA "
                  "has 32 queues at most)");
    EXPECT_EQ(refusal(queues, CudaTransport::copy), "");
  }
}

TEST(GpuHostPath, ContextsAreHeldOnTheDevicesOfTheRun) {
  FakeGpu gpu({.devices = 8});
  GpuApi api = gpu.api();
  std::vector<int> retained;
  api.cuda.primary_context_retain = [&, real = api.cuda.primary_context_retain](CUctx_st** out, int device) {
    retained.push_back(device);
    return real(out, device);
  };
  RunOptions run;
  run.backend = CudaOptions{.transport = CudaTransport::copy, .ranks_per_device = 2};
  {
    const HeldContexts held(api.cuda, api.environment, [&](int count) {
      return devices_here(count, run, {0, 4});
    });
  }
  EXPECT_EQ(retained, (std::vector<int>{0, 1}));
  EXPECT_EQ(api.environment.get("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  gpu.check_teardown();
  EXPECT_TRUE(gpu.faults().empty());
}

/// The compute stream may come to the event of the begin after another stream has come to its first one.
TEST(GpuHostPath, NothingIsOnTheClockBeforeTheStepBegins) {
  const Program program = host_path_program("1f1b", 2, 4);
  // Work that starts with a launch of NCCL has no time before that of another one; copies have their own.
  for (const auto transport : {CudaTransport::nccl, CudaTransport::copy}) {
    FakeGpu gpu(devices_for(program));
    FakeRunOptions options{.cuda = {.transport = transport, .host_threads = false}};
    options.tamper = [&](GpuApi& api) {
      const auto open = std::make_shared<std::vector<std::string>>();
      api.marks.push = [open, real = api.marks.push](const char* name) {
        open->emplace_back(name);
        real(name);
      };
      api.marks.pop = [open, real = api.marks.pop] {
        open->pop_back();
        real();
      };
      api.cuda.event_record = [&gpu, open, real = api.cuda.event_record](
                                  CUevent_st* event, CUstream_st* stream, unsigned int flags) {
        const bool begins = open->size() == 1 && open->front() == "PP:step";
        if (begins) gpu.launch(stream, {.name = "something else", .duration = 5000});
        return real(event, stream, flags);
      };
    };
    const RunResult result = run_on_fake(gpu, program, NullModel(), options).value();
    for (const Span& span : result.trace().spans) EXPECT_GE(span.start.time, 0);
  }
}

}  // namespace
}  // namespace ppsim::test

// Faults injected into the calls of the executor: each is caught, and named.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "support/fake_gpu/tampered.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test {
namespace {

TEST(StrictFake, FindsNothingInTheExecutor) {
  for (const bool graphs : {false, true}) {
    const Tampered run = run_tampered([](GpuApi&) {}, {.graphs = graphs, .host_threads = false});
    ASSERT_TRUE(run.result) << text_of(run);
    EXPECT_EQ(run.result->outcome, RunOutcome::finished);
    EXPECT_TRUE(run.faults.empty()) << text_of(run);
  }
}

TEST(StrictFake, NamesTwoEndsOfDifferentSize) {
  const Tampered run = run_tampered([](GpuApi& api) {
    auto calls = std::make_shared<int>(0);
    api.nccl.send = [calls, send = api.nccl.send](const void* from, std::size_t count, int type, int peer,
                                                  ncclComm* one, CUstream_st* stream) {
      return send(from, count / (++*calls == 4 ? 2 : 1), type, peer, one, stream);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::mismatched_ends, "SEND_F")) << text_of(run);
}

TEST(StrictFake, ASendToANobodyIsABadCall) {
  const Tampered run = run_tampered([](GpuApi& api) {
    api.nccl.send = [send = api.nccl.send](const void* from, std::size_t count, int type, int peer,
                                           ncclComm* one, CUstream_st* stream) {
      return send(from, count, type, peer + 7, one, stream);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::bad_call, "peer")) << text_of(run);
  EXPECT_FALSE(run.result);
}

TEST(StrictFake, NamesASendThatIsLeftOutAsADeadlock) {
  const Tampered run = run_tampered([](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    auto sends = std::make_shared<int>(0);
    api.nccl.send = [mark, sends, send = api.nccl.send](const void* from, std::size_t count, int type,
                                                        int peer, ncclComm* one, CUstream_st* stream) {
      if (mark.in_action() && ++*sends == 3) return kNcclSuccess;
      return send(from, count, type, peer, one, stream);
    };
  });
  ASSERT_TRUE(run.result) << text_of(run);
  EXPECT_EQ(run.result->outcome, RunOutcome::deadlock);
  EXPECT_FALSE(run.found(FaultKind::leak)) << text_of(run);
}

TEST(StrictFake, AMessageOfOtherBytesShowsInTheGradients) {
  const auto model = exact_transformer(2);
  const Program program = small_program();
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options;
  options.tamper = [](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    auto first = std::make_shared<const void*>(nullptr);
    api.nccl.send = [mark, first, send = api.nccl.send](const void* from, std::size_t count, int type,
                                                        int peer, ncclComm* one, CUstream_st* stream) {
      // The second message of a rank carries the first one's bytes again.
      if (mark.in_action() && peer == 1) std::swap(*first, from);
      return send(from == nullptr ? *first : from, count, type, peer, one, stream);
    };
  };
  const auto result = run_on_fake(gpu, program, *model, options);
  ASSERT_TRUE(result) << to_string(result.error());
  const auto reference = reference_gradients(program.pipeline(), *model).value();
  EXPECT_GT(max_gradient_difference(*model, result->gradients, reference), 0);
}

TEST(StrictFake, NamesADoubleFree) {
  const Tampered run = run_tampered([](GpuApi& api) {
    api.cuda.memory_free = [free = api.cuda.memory_free](CudaAddress address) {
      free(address);
      return free(address);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::double_free, "device memory of")) << text_of(run);
}

TEST(StrictFake, NamesWhatIsLeftBehind) {
  const Tampered run = run_tampered([](GpuApi& api) {
    api.cuda.memory_free = [](CudaAddress) { return kCudaSuccess; };
    api.cuda.event_destroy = [](CUevent_st*) { return kCudaSuccess; };
    api.cuda.stream_destroy = [](CUstream_st*) { return kCudaSuccess; };
  });
  EXPECT_TRUE(run.found(FaultKind::leak, "device memory")) << text_of(run);
  EXPECT_TRUE(run.found(FaultKind::leak, "stream")) << text_of(run);
  const Tampered other =
      run_tampered([](GpuApi& api) { api.nccl.communicator_abort = [](ncclComm*) { return kNcclSuccess; }; });
  EXPECT_TRUE(other.found(FaultKind::leak, "communicator")) << text_of(other);
}

TEST(StrictFake, NamesMemoryThatIsFreedInUse) {
  const Tampered run = run_tampered([](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    auto pool = std::make_shared<CudaAddress>(0);
    api.cuda.memory_allocate = [pool, allocate = api.cuda.memory_allocate](CudaAddress* address,
                                                                           std::size_t bytes) {
      const int result = allocate(address, bytes);
      if (*pool == 0) *pool = *address;
      return result;
    };
    api.cuda.event_record = [mark, pool, free = api.cuda.memory_free, record = api.cuda.event_record](
                                CUevent_st* event, CUstream_st* stream, unsigned int flags) {
      if (mark.in_action() && *pool != 0) free(std::exchange(*pool, 0));
      return record(event, stream, flags);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::use_after_free, "touches freed device memory")) << text_of(run);
}

TEST(StrictFake, NamesWhatIsMadeInsideAStep) {
  const Tampered run = run_tampered([](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    auto done = std::make_shared<bool>(false);
    api.cuda.event_record = [mark, done, api](CUevent_st* event, CUstream_st* stream, unsigned int flags) {
      if (mark.in_action() && !*done) {
        *done = true;
        CudaAddress memory = 0;
        api.cuda.memory_allocate(&memory, 64);
        api.cuda.memory_free(memory);
        CUevent_st* lazy = nullptr;
        api.cuda.event_create(&lazy, kCudaEventDefault);
        api.cuda.event_destroy(lazy);
      }
      return api.cuda.event_record(event, stream, flags);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::lazy_creation, "device memory is made inside a step, by PP:"))
      << text_of(run);
  EXPECT_TRUE(run.found(FaultKind::lazy_creation, "an event is made inside a step, by PP:")) << text_of(run);
}

TEST(StrictFake, NamesReadsOfWhatNothingWrote) {
  const Tampered run = run_tampered([](GpuApi& api) {
    api.cuda.fill_async = [](CudaAddress, unsigned char, std::size_t, CUstream_st*) { return kCudaSuccess; };
  });
  EXPECT_TRUE(run.found(FaultKind::never_written)) << text_of(run);
}

TEST(StrictFake, NamesAccessesOutsideOfAnAllocation) {
  const Tampered run = run_tampered([](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    api.cuda.fill_async = [mark, fill = api.cuda.fill_async](CudaAddress memory, unsigned char value,
                                                             std::size_t bytes, CUstream_st* stream) {
      constexpr std::size_t kTooMany = std::size_t{1} << 20;
      return fill(memory, value, mark.in_action() ? bytes + kTooMany : bytes, stream);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::out_of_bounds, "no part of one allocation")) << text_of(run);
}

TEST(StrictFake, NamesACommunicatorOnTwoStreamsThatNothingOrders) {
  const Tampered run = run_tampered([](GpuApi& api) {
    StepMark mark;
    mark.watch(api);
    auto other = std::make_shared<CUstream_st*>(nullptr);
    auto sends = std::make_shared<int>(0);
    api.cuda.stream_create = [other, create = api.cuda.stream_create](CUstream_st** stream,
                                                                      unsigned int flags, int priority) {
      const int result = create(stream, flags, priority);
      if (*other == nullptr) *other = *stream;
      return result;
    };
    api.nccl.send = [mark, other, sends, send = api.nccl.send](const void* from, std::size_t count, int type,
                                                               int peer, ncclComm* one, CUstream_st* stream) {
      const bool stray = mark.in_action() && peer == 1 && ++*sends == 2;
      return send(from, count, type, peer, one, stray ? *other : stream);
    };
    // The stray stream must outlive its warm-up.
    api.cuda.stream_destroy = [other, destroy = api.cuda.stream_destroy](CUstream_st* stream) {
      return stream == *other ? kCudaSuccess : destroy(stream);
    };
  });
  EXPECT_TRUE(run.found(FaultKind::unordered_use, "nothing orders them")) << text_of(run);
}

TEST(StrictFake, NamesAQueryInsideACapture) {
  const Tampered run = run_tampered(
      [](GpuApi& api) {
        auto event = std::make_shared<CUevent_st*>(nullptr);
        api.cuda.event_record = [event, record = api.cuda.event_record](CUevent_st* one, CUstream_st* stream,
                                                                        unsigned int flags) {
          if (flags == kCudaEventDefault) *event = one;
          return record(one, stream, flags);
        };
        api.cuda.capture_end = [event, query = api.cuda.event_query, end = api.cuda.capture_end](
                                   CUstream_st* stream, CUgraph_st** graph) {
          query(*event);
          return end(stream, graph);
        };
      },
      {.graphs = true, .host_threads = false});
  EXPECT_TRUE(run.found(FaultKind::bad_capture, "asks for an event that was recorded in a capture"))
      << text_of(run);
}

TEST(StrictFake, NamesAStreamThatIsNotJoined) {
  const Tampered run = run_tampered(
      [](GpuApi& api) {
        auto last = std::make_shared<int>(0);
        api.cuda.capture_begin = [last, begin = api.cuda.capture_begin](CUstream_st* stream, int mode) {
          *last = 1;
          return begin(stream, mode);
        };
        StepMark mark;
        mark.watch(api);
        api.cuda.stream_wait_event = [mark, last, wait = api.cuda.stream_wait_event](
                                         CUstream_st* stream, CUevent_st* event, unsigned int flags) {
          const bool join = *last == 2 && mark.open->empty();
          return join ? kCudaSuccess : wait(stream, event, flags);
        };
        api.marks.pop = [last, pop = api.marks.pop] {
          if (*last == 1) *last = 2;
          pop();
        };
      },
      {.graphs = true, .host_threads = false});
  EXPECT_TRUE(run.found(FaultKind::bad_capture, "is not joined before its capture ends")) << text_of(run);
}

}  // namespace
}  // namespace ppsim::test

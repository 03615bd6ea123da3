// The other ends of the calls in client.cpp.

#include "device/cuda/cublaslt_table.hpp"
#include "served_gpu/service.hpp"
#include "support/fake_gpu/transformer.hpp"

namespace ppsim::test {

const char* kept_text(const std::string& /*text*/) { return ""; }  // of a program only

namespace {

using Handler = ServedProcess::Handler;

template <class R, class... A>
Handler served_by(const std::function<R(A...)>& call) {
  return [call](Received& message, Message& answer) {
    std::tuple<Argument<std::decay_t<A>>...> arguments{Argument<std::decay_t<A>>(message)...};
    std::apply(
        [&](auto&... one) {
          if constexpr (std::is_void_v<R>)
            call(one.value()...);
          else
            answer.put(Wire<R>(call(one.value()...)));
          (one.give_back(answer), ...);
        },
        arguments);
  };
}
template <class F, class Work>
Handler served_as(const Work& work) {
  return served_by(std::function<F>(work));
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void serve_cuda(ServedProcess& process) {
  const CudaTable& cuda = process.api.cuda;
#define PPSIM_CALL(name, symbol, result, parameters) \
  process.handlers[Call::cuda_##name] = served_by(cuda.name);
#include "device/cuda/cuda_table.def"
#undef PPSIM_CALL
  process.handlers[Call::cuda_resource_split] = served_as<served::SplitResources>(
      [split = cuda.resource_split](bool wanted, unsigned int* groups, const CudaResource* input,
                                    CudaResource* remaining, unsigned int flags, unsigned int minimum,
                                    int* result) {
        std::vector<CudaResource> parts(wanted ? *groups : 0);
        *result = split(wanted ? parts.data() : nullptr, groups, input, remaining, flags, minimum);
        return bytes_of(parts);
      });
}

/// The child of a split is known once NCCL has made it. What a process that dies leaves is kept to be freed.
void serve_nccl(ServedProcess& process) {
  const NcclTable& nccl = process.api.nccl;
#define PPSIM_CALL(name, symbol, result, parameters) \
  process.handlers[Call::nccl_##name] = served_by(nccl.name);
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
  process.handlers[Call::set_launch_order] =
      served_as<int(std::string)>([set = process.api.environment.set](const std::string& value) {
        set("NCCL_LAUNCH_ORDER_IMPLICIT", value);
        return 0;
      });
  process.handlers[Call::nccl_communicator_init] = served_by(decltype(nccl.communicator_init)(
      [&](ncclComm** out, int size, NcclUniqueId id, int rank, NcclConfig* config) {
        const int result = nccl.communicator_init(out, size, id, rank, config);
        const std::scoped_lock lock(process.mutex);
        if (result == kNcclSuccess) process.communicators.insert(*out);
        return result;
      }));
  process.handlers[Call::nccl_communicator_abort] =
      served_by(decltype(nccl.communicator_abort)([&](ncclComm* one) {
        {
          const std::scoped_lock lock(process.mutex);
          process.communicators.erase(one);
        }
        return nccl.communicator_abort(one);
      }));
  process.handlers[Call::nccl_communicator_split] = served_as<served::Split>(
      [&](ncclComm* parent, int color, int key, std::uint64_t child, NcclConfig* config) {
        const std::scoped_lock lock(process.mutex);
        ServedProcess::Late& late = process.late.emplace_back(ServedProcess::Late{parent, child});
        return nccl.communicator_split(parent, color, key, &late.made, config);
      });
  process.handlers[Call::nccl_async_error] =
      served_as<served::AsyncError>([&](ncclComm* one, int* error, int* result) {
        *result = nccl.async_error(one, error);
        std::vector<served::LateChild> children;
        const std::scoped_lock lock(process.mutex);
        for (ServedProcess::Late& late : process.late) {
          if (late.parent != one || late.made == nullptr) continue;
          process.communicators.insert(late.made);
          children.push_back({late.child, std::exchange(late.made, nullptr)});
        }
        return bytes_of(children);
      });
}

void serve_cublaslt(ServedProcess& process, FakeGpu& gpu) {
  const CublasLtTable table = host_cublaslt(queue_of(gpu));
#define PPSIM_CALL(name, symbol, result, parameters) \
  process.handlers[Call::cublaslt_##name] = served_by(table.name);
#include "device/cuda/cublaslt_table.def"
#undef PPSIM_CALL
  for (const auto& [entry, number] : {std::pair{table.operation_set, Call::cublaslt_operation_set},
                                      {table.layout_set, Call::cublaslt_layout_set},
                                      {table.preference_set, Call::cublaslt_preference_set}}) {
    process.handlers[number] =
        served_as<served::Set>([set = entry](void* object, int attribute, const std::string& value) {
          return set(object, attribute, value.data(), value.size());
        });
  }
  process.handlers[Call::cublaslt_choose] = served_as<served::Choose>(
      [choose = table.choose](cublasLtContext* handle, void* operation, void* a, void* b, void* c, void* d,
                              void* preference, int wanted, int* found, int* result) {
        std::vector<CublasLtChoice> choices(static_cast<std::size_t>(wanted));
        *result = choose(handle, operation, a, b, c, d, preference, wanted, choices.data(), found);
        return bytes_of(choices);
      });
  process.handlers[Call::cublaslt_multiply] = served_as<served::Multiply>(
      [multiply = table.multiply](cublasLtContext* handle, void* operation, float alpha, const void* a,
                                  void* a_layout, const void* b, void* b_layout, float beta, const void* c,
                                  void* c_layout, void* d, void* d_layout, const CublasLtAlgorithm* algorithm,
                                  void* workspace, std::size_t bytes, CUstream_st* stream) {
        return multiply(handle, operation, &alpha, a, a_layout, b, b_layout, &beta, c, c_layout, d, d_layout,
                        algorithm, workspace, bytes, stream);
      });
}

void serve_kernels(ServedProcess& process, FakeGpu& gpu) {
  const cuda::KernelTable table = host_kernels(queue_of(gpu));
#define PPSIM_CALL(name, type) process.handlers[Call::kernel_##name] = served_by(table.name);
#include "transformer/kernels/kernel_table.def"
#undef PPSIM_CALL
}

}  // namespace

void serve_calls(ServedProcess& process, FakeGpu& gpu) {
  serve_cuda(process);
  serve_nccl(process);
  serve_cublaslt(process, gpu);
  serve_kernels(process, gpu);
  process.handlers[Call::push_mark] = [push = process.api.marks.push](Received& message, Message&) {
    push(message.get<std::string>().c_str());
  };
  process.handlers[Call::pop_mark] = [pop = process.api.marks.pop](Received&, Message&) { pop(); };
  process.handlers[Call::leave] = [&process](Received&, Message&) { process.left = true; };
}

}  // namespace ppsim::test

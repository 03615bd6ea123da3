// In place of the libraries of CUDA and of the kernels of a build: every call goes to the strict fake of the
// process that served_gpu started. A program that links this is otherwise the one that users have.

#define NVTX_NO_IMPL
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "served_gpu/socket.hpp"
#include "served_gpu/wire.hpp"
#include "support/fake_gpu/memory.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

const char* kept_text(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> kept;
  const std::scoped_lock lock(mutex);
  return kept.insert(text).first->c_str();
}

namespace {

std::string folder() {
  const char* const found = std::getenv(kFolderVariable);
  if (found == nullptr)
    throw BackendError(ErrorCode::io, "this program runs on the strict fake: start it by served_gpu");
  return found;
}

std::string variable(const char* name) {
  const char* const found = std::getenv(name);
  return found == nullptr ? "" : found;
}

[[noreturn]] void lost() { throw BackendError(ErrorCode::io, "the strict fake is gone"); }

std::uint64_t number_of(const std::string& text) { return text.empty() ? 0 : std::hash<std::string>()(text); }

/// The job of a process: the same for all processes that a launcher lets meet, else its own.
std::uint64_t job_of(std::uint64_t process) {
  const auto several = [](const char* name) { return !variable(name).empty() && variable(name) != "1"; };
  if (!several("WORLD_SIZE") && !several("OMPI_COMM_WORLD_SIZE") && !several("SLURM_STEP_NUM_TASKS") &&
      !several("NCCL_COMM_ID"))
    return process;
  std::string place;
  for (const char* const name :
       {"MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"})
    place += variable(name) + '\n';
  return number_of(place);
}

int connect_to_fake(bool is_presence) {
  static const std::uint64_t process = [] {
    std::random_device random;
    return (std::uint64_t{random()} << 32) | static_cast<std::uint32_t>(getpid());
  }();
  struct stat network {};
  stat("/proc/self/ns/net", &network);
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = socket_address(folder());
  Message hello;
  hello.put(Hello{process, job_of(process), network.st_ino, number_of(variable("NCCL_HOSTID")),
                  variable("CUDA_DEVICE_MAX_CONNECTIONS") == "1", is_presence});
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      !send_message(made, hello.bytes()))
    lost();
  return made;
}

/// Of the process as a whole, up to its end.
void be_there() {
  static const int presence = connect_to_fake(true);
  static const int registered = std::atexit([] {
    Message last;
    last.put(Call::leave);
    send_message(presence, last.bytes());
  });
  static_cast<void>(registered);
}

/// The connection of this thread, by which the fake tells the host's threads apart.
int connection() {
  struct Own {
    int socket = -1;
    ~Own() {
      if (socket >= 0) close(socket);
    }
  };
  thread_local Own own;
  if (own.socket < 0) {
    be_there();
    own.socket = connect_to_fake(false);
  }
  return own.socket;
}

void tell(const Message& message) {
  if (!send_message(connection(), message.bytes())) lost();
}

/// The result that a test gives to a call in place of making it: "cuStreamWaitEvent 3 0" in the variable is a
/// success for the third such call, "cuStreamWaitEvent 3 dies" the end of the process.
std::optional<int> given_instead(Call number) {
  static const std::map<std::string, Call> kCalls = {
#define PPSIM_CALL(name, symbol, result, parameters) {#symbol, Call::cuda_##name},
#include "device/cuda/cuda_table.def"
#undef PPSIM_CALL
  };
  struct Wanted {
    std::string symbol;
    int nth = 0;
    std::string result;
  };
  static const Wanted wanted = [] {
    Wanted read;
    std::istringstream(variable("PPSIM_SERVED_INSTEAD")) >> read.symbol >> read.nth >> read.result;
    return read;
  }();
  static std::atomic<int> seen = 0;
  if (wanted.symbol.empty() || kCalls.at(wanted.symbol) != number || ++seen != wanted.nth)
    return std::nullopt;
  if (wanted.result == "dies") kill(getpid(), SIGKILL);
  return std::stoi(wanted.result);
}

template <class R, class... A>
R call(Call number, const A&... arguments) {
  if constexpr (std::is_same_v<R, int>) {
    if (const auto result = given_instead(number)) return *result;
  }
  Message message;
  message.put(number);
  (Argument<A>::send(message, arguments), ...);
  tell(message);
  std::string bytes;
  if (!receive_message(connection(), bytes)) lost();
  Received answer(bytes);
  if constexpr (std::is_void_v<R>) {
    (Argument<A>::receive(answer, arguments), ...);
  } else {
    auto result = answer.get<Wire<R>>();
    (Argument<A>::receive(answer, arguments), ...);
    if constexpr (std::is_same_v<R, const char*>) return kept_text(result);
    if constexpr (!std::is_same_v<R, const char*>) return result;
  }
}

template <class R, class... A>
void fill(std::function<R(A...)>& entry, Call number) {
  entry = [number](A... arguments) { return call<R, std::decay_t<A>...>(number, arguments...); };
}
/// A call of another form than the table's.
template <class F>
std::function<F> remote(Call number) {
  std::function<F> made;
  fill(made, number);
  return made;
}

std::string bytes_of(const void* values, std::size_t size) {
  return {static_cast<const char*>(values), size};
}

/// Pinned memory lies in a file, at the same address here and there.
void* mapped(void* memory) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(memory) - kGuard;
  const int file = open(file_of_pages(folder(), begin).c_str(), O_RDWR | O_CLOEXEC);
  struct stat known {};
  void* made = MAP_FAILED;
  if (file >= 0 && fstat(file, &known) == 0) {
    made = mmap(reinterpret_cast<void*>(begin), static_cast<std::size_t>(known.st_size),
                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
  }
  if (file >= 0) close(file);
  if (made == MAP_FAILED) throw BackendError(ErrorCode::io, "pinned memory of the fake cannot be mapped");
  return memory;
}

void fill_pinned(CudaTable& cuda) {
  cuda.host_allocate = [allocate = cuda.host_allocate](void** memory, std::size_t bytes, unsigned int flags) {
    const int result = allocate(memory, bytes, flags);
    if (result == kCudaSuccess) mapped(*memory);
    return result;
  };
}

void fill_split(CudaTable& cuda) {
  cuda.resource_split = [split = remote<served::SplitResources>(Call::cuda_resource_split)](
                            CudaResource* parts, unsigned int* groups, const CudaResource* input,
                            CudaResource* remaining, unsigned int flags, unsigned int minimum) {
    int result = 0;
    const std::string made = split(parts != nullptr, groups, input, remaining, flags, minimum, &result);
    if (parts != nullptr) std::memcpy(static_cast<void*>(parts), made.data(), made.size());
    return result;
  };
}

}  // namespace
}  // namespace ppsim::test

namespace ppsim::gpu_backend {

using namespace ppsim::test;

CudaTable load_cuda(const std::string& /*path*/) {
  static_cast<void>(folder());
  CudaTable table;
#define PPSIM_CALL(name, symbol, result, parameters) fill(table.name, Call::cuda_##name);
#include "device/cuda/cuda_table.def"
#undef PPSIM_CALL
  fill_pinned(table);
  fill_split(table);
  return table;
}

NcclTable load_nccl(const std::string& /*path*/) {
  NcclTable table;
#define PPSIM_CALL(name, symbol, result, parameters) fill(table.name, Call::nccl_##name);
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
  // Processes that do not meet otherwise have the variable in common; numbers from the fake are positive.
  table.unique_id = [ask = table.unique_id](NcclUniqueId* id) {
    const std::uint64_t common = number_of(variable("NCCL_COMM_ID"));
    if (common == 0) return ask(id);
    const int number = -1 - static_cast<int>(common % INT_MAX);
    std::memcpy(id->internal, &number, sizeof number);
    return kNcclSuccess;
  };
  table.communicator_init = [init = table.communicator_init](ncclComm** out, int size, NcclUniqueId id,
                                                             int rank, NcclConfig* config) {
    call<int>(Call::set_launch_order, variable("NCCL_LAUNCH_ORDER_IMPLICIT"));
    return init(out, size, id, rank, config);
  };
  table.communicator_split = [split = remote<served::Split>(Call::nccl_communicator_split)](
                                 ncclComm* parent, int color, int key, ncclComm** child, NcclConfig* config) {
    *child = nullptr;
    return split(parent, color, key, reinterpret_cast<std::uint64_t>(child), config);
  };
  table.async_error = [ask = remote<served::AsyncError>(Call::nccl_async_error)](ncclComm* one, int* error) {
    int result = 0;
    const std::string children = ask(one, error, &result);
    for (std::size_t at = 0; at < children.size(); at += sizeof(served::LateChild)) {
      const auto late = Received(std::string_view(children).substr(at)).get<served::LateChild>();
      *reinterpret_cast<ncclComm**>(late.child) = late.made;
    }
    return result;
  };
  return table;
}

std::string cublaslt_file() { return "the strict fake"; }
std::string cudnn_file() { return "none"; }

CublasLtTable load_cublaslt(const std::string& /*path*/) {
  CublasLtTable table;
#define PPSIM_CALL(name, symbol, result, parameters) fill(table.name, Call::cublaslt_##name);
#include "device/cuda/cublaslt_table.def"
#undef PPSIM_CALL
  for (const auto& [entry, number] : {std::pair{&table.operation_set, Call::cublaslt_operation_set},
                                      {&table.layout_set, Call::cublaslt_layout_set},
                                      {&table.preference_set, Call::cublaslt_preference_set}}) {
    *entry = [set = remote<served::Set>(number)](void* object, int attribute, const void* value,
                                                 std::size_t size) {
      return set(object, attribute, bytes_of(value, size));
    };
  }
  table.choose = [choose = remote<served::Choose>(Call::cublaslt_choose)](
                     cublasLtContext* handle, void* operation, void* a, void* b, void* c, void* d,
                     void* preference, int wanted, CublasLtChoice* choices, int* found) {
    int result = 0;
    const std::string made = choose(handle, operation, a, b, c, d, preference, wanted, found, &result);
    std::memcpy(static_cast<void*>(choices), made.data(), made.size());
    return result;
  };
  table.multiply = [multiply = remote<served::Multiply>(Call::cublaslt_multiply)](
                       cublasLtContext* handle, void* operation, const void* alpha, const void* a,
                       void* a_layout, const void* b, void* b_layout, const void* beta, const void* c,
                       void* c_layout, void* d, void* d_layout, const CublasLtAlgorithm* algorithm,
                       void* workspace, std::size_t workspace_bytes, CUstream_st* stream) {
    return multiply(handle, operation, *static_cast<const float*>(alpha), a, a_layout, b, b_layout,
                    *static_cast<const float*>(beta), c, c_layout, d, d_layout, algorithm, workspace,
                    workspace_bytes, stream);
  };
  return table;
}

/// Its arguments are pointers to memory of the host, too, which the fake cannot tell from the device's.
CudnnTable load_cudnn(const std::string& /*path*/) {
  throw BackendError(ErrorCode::io, "programs on the strict fake have no cuDNN");
}

namespace cuda {

KernelTable compiled_kernels() {
  KernelTable table;
#define PPSIM_CALL(name, type) fill(table.name, Call::kernel_##name);
#include "transformer/kernels/kernel_table.def"
#undef PPSIM_CALL
  return table;
}

}  // namespace cuda
}  // namespace ppsim::gpu_backend

namespace {

int NVTX_API hear_push(const char* name) {
  ppsim::test::Message message;
  message.put(ppsim::test::Call::push_mark);
  message.put(std::string(name));
  ppsim::test::tell(message);
  return 0;
}

int NVTX_API hear_pop() {
  ppsim::test::Message message;
  message.put(ppsim::test::Call::pop_mark);
  ppsim::test::tell(message);
  return 0;
}

/// Receives marks as a linked profiler does: the fake names faults by the host's marks.
int NVTX_API listen(NvtxGetExportTableFunc_t table_of) {
  const auto* const table = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (table == nullptr || table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0)
    return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&hear_push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&hear_pop);
  return 1;
}

}  // namespace

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &listen;  // NOLINT: the name is NVTX's
}

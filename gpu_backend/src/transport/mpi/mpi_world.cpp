#include "mpi_world.hpp"

#include <string>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr int kMinLargestTag = 32767;  // promised by the standard

MPI_Comm own_copy() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

}  // namespace

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw BackendError(ErrorCode::io, std::string(call) + ": " + text.data());
}

Expected<std::unique_ptr<MpiWorld>> MpiWorld::open() {
  int before = 0;
  MPI_Initialized(&before);
  if (before != 0) return make_error(ErrorCode::io, "MPI is initialised once in the life of a process");
  int threads = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS)
    return make_error(ErrorCode::io, "MPI does not start");
  try {
    std::unique_ptr<MpiWorld> world(new MpiWorld);
    if (threads < MPI_THREAD_SERIALIZED)
      return make_error(ErrorCode::io, "this MPI cannot be called from several threads in turn");
    return world;
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  }
}

MpiWorld::MpiWorld() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &process_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process_, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &local_process_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  for (MPI_Comm& copy : messages_) copy = own_copy();
  barriers_ = own_copy();
}

MpiWorld::~MpiWorld() {
  if (!in_order_) return;
  for (MPI_Comm* copy : {&messages_[0], &messages_[1], &barriers_}) {
    if (*copy != MPI_COMM_NULL) MPI_Comm_free(copy);
  }
  MPI_Finalize();
}

int MpiWorld::largest_tag() const {
  void* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(messages_[0], MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
  return found != 0 ? *static_cast<int*>(value) : kMinLargestTag;
}

}  // namespace ppsim::gpu_backend

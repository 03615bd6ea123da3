#include "shared_flags.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw BackendError(ErrorCode::io, what + ": " + std::strerror(error));
}

/// A name that no other run has.
std::string new_name() {
  std::random_device random;
  return "/ppsim-" + std::to_string(getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

/// Maps shared memory, which it makes or which is there. The memory outlives its name.
std::shared_ptr<void> map(const std::string& name, std::size_t bytes, bool make) {
  const int file = shm_open(name.c_str(), make ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, S_IRUSR | S_IWUSR);
  if (file < 0) {
    fail(make ? "copies between processes need shared memory in /dev/shm"
              : "copies need all processes on one host with one /dev/shm, and this one does not see that of "
                "process 0",
         errno);
  }
  const bool sized = !make || ftruncate(file, static_cast<off_t>(bytes)) == 0;
  // Allocated now: a full /dev/shm would end the process at its first access.
  const int full = sized ? posix_fallocate(file, 0, static_cast<off_t>(bytes)) : errno;
  void* const memory =
      full == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = full == 0 ? errno : full;
  close(file);
  if (memory == MAP_FAILED) fail(std::to_string(bytes) + " bytes of shared memory in /dev/shm", error);
  return {memory, [bytes](void* mapped) { munmap(mapped, bytes); }};
}

/// Takes a name away when the processes have opened it, or have failed to.
class SegmentName {
 public:
  SegmentName(std::string name, bool own) : name_(std::move(name)), own_(own) {}
  ~SegmentName() {
    if (own_) shm_unlink(name_.c_str());
  }
  SegmentName(const SegmentName&) = delete;
  SegmentName& operator=(const SegmentName&) = delete;
  [[nodiscard]] const std::string& text() const { return name_; }

 private:
  std::string name_;
  bool own_;
};

std::shared_ptr<void> map_with_all(std::size_t bytes, Peers& peers) {
  const SegmentName own(peers.leads() ? new_name() : std::string(), peers.leads());
  std::shared_ptr<void> memory;
  if (peers.leads()) memory = map(own.text(), bytes, true);
  const std::string name = peers.from_leader(own.text());
  if (!peers.leads()) memory = map(name, bytes, false);
  peers.assemble();
  return memory;
}

}  // namespace

SharedFlags::SharedFlags(std::size_t count, Peers& peers) {
  if (peers.alone()) {
    const auto own = std::make_shared<std::vector<Flag>>(count);
    memory_ = own;
    flags_ = *own;
    return;
  }
  memory_ = map_with_all(count * sizeof(Flag), peers);
  flags_ = {static_cast<Flag*>(memory_.get()), count};
}

}  // namespace ppsim::gpu_backend

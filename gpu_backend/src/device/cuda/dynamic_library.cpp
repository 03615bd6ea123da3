#include "dynamic_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "ppsim/gpu_backend/device/device.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string name_of(const LibrarySource& source) {
  if (!source.path.empty()) return source.path;
  const char* const named = std::getenv(source.variable);
  return named != nullptr && *named != '\0' ? named : source.name;
}

std::string last_failure() {
  const char* const text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const LibrarySource& source) : name_(name_of(source)) {
  // Threads, handlers and kernels of these libraries do not outlive their unloading.
  void* const handle = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    throw BackendError(ErrorCode::io, std::string(source.purpose) + " needs " + name_ + ": " +
                                          last_failure() + " (set " + source.variable +
                                          " to the path of another one)");
  }
  handle_ = std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

void* DynamicLibrary::address(const char* symbol) const {
  void* const found = dlsym(handle_.get(), symbol);
  if (found == nullptr) {
    throw BackendError(ErrorCode::io, name_ + " lacks " + symbol + ": another version of it is needed");
  }
  return found;
}

}  // namespace ppsim::gpu_backend

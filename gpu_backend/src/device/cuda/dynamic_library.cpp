#include "dynamic_library.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <vector>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

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

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Where CUDA and pip put what the system's own search does not find.
std::vector<std::string> folders_of(const std::string& package) {
  std::vector<std::string> folders = {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu"};
  const std::string in_package = "/nvidia/" + package + "/lib";
  for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string root = variable(prefix); !root.empty())
      folders.push_back(root + "/lib/python3*/site-packages" + in_package);
  }
  if (const std::string home = variable("HOME"); !home.empty())
    folders.push_back(home + "/.local/lib/python3*/site-packages" + in_package);
  for (const char* root : {"/usr/local/lib/python3*/", "/usr/lib/python3*/"})
    folders.push_back(std::string(root) + "*-packages" + in_package);
  return folders;
}

/// Opens the first that can be; null: none can.
void* open_in_folders(const LibrarySource& source, std::string& name) {
  for (const std::string& folder : folders_of(source.package)) {
    glob_t files{};
    const bool some = glob((folder + "/" + source.name).c_str(), 0, nullptr, &files) == 0;
    void* handle = nullptr;
    for (std::size_t i = 0; some && i < files.gl_pathc && handle == nullptr; ++i) {
      name = files.gl_pathv[i];
      handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    globfree(&files);
    if (handle != nullptr) return handle;
  }
  name = source.name;
  return nullptr;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const LibrarySource& source)
    : name_(name_of(source)), version_(source.version) {
  // Threads, handlers and kernels of these libraries do not outlive their unloading.
  void* handle = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    std::string why = last_failure();
    if (name_ == source.name && *source.package != '\0') {
      handle = open_in_folders(source, name_);
      why += "; nor is it in a folder of CUDA or of a Python package (pip install nvidia-" +
             std::string(source.package) + "-cu13)";
    }
    if (handle == nullptr) {
      throw BackendError(ErrorCode::io, std::string(source.purpose) + " needs " + name_ + ": " + why +
                                            " (set " + source.variable + " to the path of another one)");
    }
  }
  handle_ = std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

void* DynamicLibrary::address(const char* symbol) const {
  void* const found = dlsym(handle_.get(), symbol);
  if (found == nullptr) {
    throw BackendError(ErrorCode::io,
                       name_ + " lacks " + symbol + ": " +
                           (version_.empty() ? "another version of it is" : version_ + " or later is") +
                           " needed");
  }
  return found;
}

}  // namespace ppsim::gpu_backend

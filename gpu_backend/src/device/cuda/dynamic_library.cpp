#include "dynamic_library.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string library_name(const LibrarySource& source) {
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

std::string in_package(const std::string& package) { return "/nvidia/" + package + "/lib"; }

/// The root of the environment that the first python3 on the path belongs to, such as an active one.
std::string python_root() {
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (access((folder + "/python3").c_str(), X_OK) == 0) return folder + "/..";
  }
  return "";
}

/// The Python environment that a user works in. What it has comes before the system's: it is what frameworks
/// of that environment run on, and often newer.
std::vector<std::string> folders_of_environment(const std::string& package) {
  std::vector<std::string> folders;
  for (const std::string& root : {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), python_root()}) {
    if (!root.empty()) folders.push_back(root + "/lib/python3*/site-packages" + in_package(package));
  }
  return folders;
}

/// Where CUDA and pip put what the system's own search does not find.
std::vector<std::string> other_folders(const std::string& package) {
  std::vector<std::string> folders = {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu"};
  if (const std::string home = variable("HOME"); !home.empty())
    folders.push_back(home + "/.local/lib/python3*/site-packages" + in_package(package));
  for (const char* root : {"/usr/local/lib/python3*/", "/usr/lib/python3*/"})
    folders.push_back(std::string(root) + "*-packages" + in_package(package));
  return folders;
}

void* open(const std::string& name) { return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

/// Opens the first that can be; null: none can.
void* open_in(const std::vector<std::string>& folders, const LibrarySource& source, std::string& name) {
  for (const std::string& folder : folders) {
    glob_t files{};
    const bool some = glob((folder + "/" + source.name).c_str(), 0, nullptr, &files) == 0;
    void* handle = nullptr;
    for (std::size_t i = 0; some && i < files.gl_pathc && handle == nullptr; ++i) {
      name = files.gl_pathv[i];
      handle = open(name);
    }
    globfree(&files);
    if (handle != nullptr) return handle;
  }
  name = source.name;
  return nullptr;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const LibrarySource& source)
    : name_(library_name(source)), version_(source.version) {
  // Threads, handlers and kernels of these libraries do not outlive their unloading.
  const bool in_packages = name_ == source.name && *source.package != '\0';
  void* handle = in_packages ? open_in(folders_of_environment(source.package), source, name_) : nullptr;
  if (handle == nullptr) handle = open(name_);
  if (handle == nullptr) {
    std::string why = last_failure();
    if (in_packages) {
      handle = open_in(other_folders(source.package), source, name_);
      why += "; nor can it be opened in a folder of CUDA or of a Python package (pip install nvidia-" +
             std::string(source.package) + "-cu13)";
    }
    if (handle == nullptr) {
      throw BackendError(ErrorCode::io, std::string(source.purpose) + " needs " + name_ + ": " + why +
                                            " (set " + source.variable + " to the path of another one)");
    }
  }
  handle_ = std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

DynamicLibrary DynamicLibrary::first_of(LibrarySource source, std::span<const char* const> names) {
  source.name = names.front();
  try {
    return DynamicLibrary(source);
  } catch (const BackendError&) {
    for (const char* const name : names.subspan(1)) {
      source.name = name;
      try {
        return DynamicLibrary(source);
      } catch (const BackendError&) {
        // The next one; else the first says what is missing.
      }
    }
    throw;
  }
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

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace ppsim::gpu_backend {

/// Where a library is looked for: a path, else the value of the environment variable, else by name. One that
/// NVIDIA ships as a Python package is taken from the active Python environment before it is looked for by
/// name, and from folders of CUDA and other packages where the system does not know the name.
struct LibrarySource {
  std::string path;
  const char* variable = "";
  const char* name = "";
  const char* purpose = "";  ///< the feature that needs it, for the message when it is missing
  const char* package = "";  ///< "cudnn" as in nvidia/cudnn/lib; empty: in no package
  const char* version = "";  ///< the oldest that has all symbols; empty: not known
};

/// A library opened at run time. It stays open as long as any function taken from it lives.
class DynamicLibrary {
 public:
  /// Errors: throws BackendError naming the library, its purpose, and how to name another one.
  explicit DynamicLibrary(const LibrarySource& source);
  /// The first of several names of a library that can be opened. Errors: as for the first.
  [[nodiscard]] static DynamicLibrary first_of(LibrarySource source, std::span<const char* const> names);

  /// Its path, or its name where the system's search has found it.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Errors: throws BackendError naming the library and the symbol that it lacks.
  template <class Signature>
  void take(std::function<Signature>& into, const char* symbol) const {
    auto* const function = reinterpret_cast<Signature*>(address(symbol));
    into = [keep = handle_, function](auto&&... arguments) {
      return function(std::forward<decltype(arguments)>(arguments)...);
    };
  }

 private:
  [[nodiscard]] void* address(const char* symbol) const;

  std::string name_;
  std::string version_;
  std::shared_ptr<void> handle_;
};

}  // namespace ppsim::gpu_backend

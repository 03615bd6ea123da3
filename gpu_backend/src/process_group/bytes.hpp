#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {

/// Puts values into a string of bytes, for a reader of the same architecture.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ByteWriter& put_text(std::string_view text) {
    put(text.size());
    bytes_.append(text);
    return *this;
  }
  template <class T>
  ByteWriter& put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return put_text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes them out again. Errors: throws BackendError when there are too few bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, get_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view get_text() { return get_bytes(get<std::size_t>()); }
  template <class T>
  [[nodiscard]] std::vector<T> get_all() {
    const std::string_view text = get_text();
    std::vector<T> values(text.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), text.data(), values.size() * sizeof(T));
    return values;
  }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string_view get_bytes(std::size_t count) {
    if (count > bytes_.size()) throw BackendError(ErrorCode::io, "a message of another process is cut short");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
};

}  // namespace ppsim::gpu_backend

#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_table.hpp"
#include "ppsim/core/ir/check.hpp"
#include "transformer/kernels/kernel_table.hpp"
#include "transport/nccl/nccl_table.hpp"

/// How the calls of a program on the strict fake reach the process that has it: a message for each call, with
/// the values of its arguments and the content of what the host lends it, and one back. What the device owns
/// (memory, streams, communicators) is an address that means something over there alone, but pinned memory,
/// which both map at one address.
namespace ppsim::test {

/// A message in the making.
class Message {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A message that came.
class Received {
 public:
  explicit Received(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  [[nodiscard]] T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(take(get<std::size_t>()));
    } else {
      T value;
      std::memcpy(static_cast<void*>(&value), take(sizeof value).data(), sizeof value);
      return value;
    }
  }

 private:
  std::string_view take(std::size_t size) {
    PPSIM_CHECK(size <= rest_.size(), "a message that is cut off");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

template <class T>
    struct IsOfHost : std::bool_constant < requires {
  sizeof(T);
} > {};
template <>
struct IsOfHost<void> : std::false_type {};
template <>
struct IsOfHost<const void> : std::false_type {};

/// An argument: sent to the fake, in the call there, and sent back. A value travels as it is.
template <class T>
class Argument {
 public:
  static void send(Message& message, const T& value) { message.put(value); }
  static void receive(Received& /*answer*/, const T& /*value*/) {}

  explicit Argument(Received& message) : value_(message.get<T>()) {}
  [[nodiscard]] T& value() { return value_; }
  void give_back(Message& /*answer*/) {}

 private:
  T value_;
};

/// A pointer to memory of the host: its content travels there, and back where it may have changed.
template <class T>
requires IsOfHost<T>::value class Argument<T*> {
 public:
  static void send(Message& message, T* value) {
    message.put(value != nullptr);
    if (value != nullptr) message.put(*value);
  }
  static void receive(Received& answer, T* value) {
    if constexpr (!std::is_const_v<T>) {
      if (value != nullptr) *value = answer.get<T>();
    }
  }

  explicit Argument(Received& message) : there_(message.get<bool>()) {
    if (there_) value_ = message.get<std::remove_const_t<T>>();
  }
  [[nodiscard]] T* value() { return there_ ? &value_ : nullptr; }
  void give_back(Message& answer) {
    if (!std::is_const_v<T> && there_) answer.put(value_);
  }

 private:
  bool there_ = false;
  std::remove_const_t<T> value_{};
};

/// The text that lives as long as the program.
[[nodiscard]] const char* kept_text(const std::string& text);

/// A text that the fake gives.
template <>
class Argument<const char**> {
 public:
  static void send(Message& /*message*/, const char** /*value*/) {}
  static void receive(Received& answer, const char** value) { *value = kept_text(answer.get<std::string>()); }

  explicit Argument(Received& /*message*/) {}
  [[nodiscard]] const char** value() { return &value_; }
  void give_back(Message& answer) { answer.put(std::string(value_)); }

 private:
  const char* value_ = "";
};

/// Room for a text. Requires: of as many bytes as the texts of the fake have.
template <>
class Argument<char*> {
 public:
  static void send(Message& /*message*/, char* /*value*/) {}
  static void receive(Received& answer, char* value) {
    const auto text = answer.get<std::string>();
    std::memcpy(value, text.c_str(), text.size() + 1);
  }

  explicit Argument(Received& /*message*/) {}
  [[nodiscard]] char* value() { return value_.data(); }
  void give_back(Message& answer) { answer.put(std::string(value_.data())); }

 private:
  std::array<char, 1024> value_{};
};

template <class R>
using Wire = std::conditional_t<std::is_same_v<R, const char*>, std::string, R>;

/// Every call. Both sides are built from one source, so the numbers are the same.
enum class Call : std::uint16_t {
#define PPSIM_CALL(name, symbol, result, parameters) cuda_##name,
#include "device/cuda/cuda_table.def"
#undef PPSIM_CALL
#define PPSIM_CALL(name, symbol, result, parameters) nccl_##name,
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
#define PPSIM_CALL(name, symbol, result, parameters) cublaslt_##name,
#include "device/cuda/cublaslt_table.def"
#undef PPSIM_CALL
#define PPSIM_CALL(name, type) kernel_##name,
#include "transformer/kernels/kernel_table.def"
#undef PPSIM_CALL
  push_mark,  ///< this one and the next have no answer
  pop_mark,
  set_launch_order,  ///< NCCL_LAUNCH_ORDER_IMPLICIT, which NCCL reads with the first communicator
  leave,             ///< of a process that ends as it should
};

/// The first message of a connection. Each thread of a program has one.
struct Hello {
  std::uint64_t process = 0;  ///< a number of the process's own
  std::uint64_t job = 0;      ///< one for all processes that meet somewhere, else the process's own
  std::uint64_t host = 0;     ///< processes of one network namespace are of one host
  std::uint64_t machine = 0;  ///< of NCCL_HOSTID; 0: none
  bool one_queue = false;     ///< CUDA_DEVICE_MAX_CONNECTIONS=1
  bool is_presence = false;   ///< it lasts as long as the process
};

/// Calls whose arguments do not tell how much the host lends: what travels in their place.
namespace served {
using SplitResources = std::string(bool wanted, unsigned int* groups, const gpu_backend::CudaResource* input,
                                   gpu_backend::CudaResource* remaining, unsigned int flags,
                                   unsigned int minimum, int* result);
/// `child` is where the program wants the child, which is handed out later.
using Split = int(ncclComm* parent, int color, int key, std::uint64_t child, gpu_backend::NcclConfig* config);
/// Returns: the children that are handed out now, as LateChild.
using AsyncError = std::string(ncclComm* communicator, int* error, int* result);
struct LateChild {
  std::uint64_t child;
  ncclComm* made;
};
using Set = int(void* object, int attribute, std::string value);
/// Returns: the choices.
using Choose = std::string(cublasLtContext* handle, void* operation, void* a, void* b, void* c, void* d,
                           void* preference, int wanted, int* found, int* result);
using Multiply = int(cublasLtContext* handle, void* operation, float alpha, const void* a, void* a_layout,
                     const void* b, void* b_layout, float beta, const void* c, void* c_layout, void* d,
                     void* d_layout, const gpu_backend::CublasLtAlgorithm* algorithm, void* workspace,
                     std::size_t workspace_bytes, CUstream_st* stream);
}  // namespace served

}  // namespace ppsim::test

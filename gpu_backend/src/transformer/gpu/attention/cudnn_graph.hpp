#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/cudnn_table.hpp"

namespace ppsim::gpu_backend::cuda {

/// Requires: a table that outlives what is destroyed.
struct DestroyCudnnObject {
  const CudnnTable* cudnn = nullptr;
  void operator()(void* object) const { cudnn->object_destroy(object); }
};
/// An object of cuDNN that is destroyed with its owner.
using CudnnObject = std::unique_ptr<void, DestroyCudnnObject>;

/// Values of an attribute, and room for some.
struct CudnnValues {
  int type = 0;
  std::int64_t count = 0;
  const void* values = nullptr;
};
struct CudnnRoom {
  int type = 0;
  std::int64_t count = 0;
  void* values = nullptr;
};

/// Makes, fills and reads cuDNN's objects, none of which outlives it. Errors: throws BackendError that begins
/// with `what`.
class CudnnObjects {
 public:
  CudnnObjects(CudnnTable cudnn, std::string what) : cudnn_(std::move(cudnn)), what_(std::move(what)) {}

  [[nodiscard]] CudnnObject make(int type) const;
  void set(void* object, int attribute, const CudnnValues& values) const;
  template <class T>
  void set(void* object, int attribute, int type, const T& value) const {
    set(object, attribute, {type, 1, &value});
  }
  void set_object(void* object, int attribute, void* value) const {
    set(object, attribute, cudnn_type::kObject, value);
  }
  /// Returns: how many values there are, of which no more were written than there is room for.
  std::int64_t get(void* object, int attribute, const CudnnRoom& room) const;
  void finish(void* object) const { check(cudnn_.object_finish(object)); }

  void check(int status) const { check_cudnn(cudnn_, status, what_); }
  [[nodiscard]] const CudnnTable& table() const { return cudnn_; }
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  CudnnTable cudnn_;
  std::string what_;
};

/// The numbers of a tensor: sequences x heads x rows x columns, and how many lie between two of each.
struct TensorLayout {
  int type = kCudnnFloat32;
  std::array<std::int64_t, 4> dimensions = {1, 1, 1, 1};
  std::array<std::int64_t, 4> strides = {1, 1, 1, 1};

  /// The same numbers with rows as columns.
  [[nodiscard]] TensorLayout transposed() const;
};

/// A tensor of a graph. Only refers to its object, which the graph owns.
struct GraphTensor {
  void* object = nullptr;
  TensorLayout layout;
};

/// y = mode(x, b), or t ? x : b.
struct PointwiseOperation {
  CudnnPointwise mode;
  GraphTensor x;
  std::optional<GraphTensor> b = std::nullopt, t = std::nullopt;
  int precision = kCudnnFloat32;
  std::int64_t axis = -1;  ///< of an index
};

/// Operations on tensors, in the making. Tensors of the caller have ids of his below kFirstInner. Errors: as
/// those of CudnnObjects.
class CudnnGraph {
 public:
  static constexpr std::int64_t kFirstInner = 100;
  static constexpr std::int64_t kAlignment = 16;  ///< bytes, of all that lies in device memory

  explicit CudnnGraph(const CudnnObjects& objects) : objects_(objects) {}

  [[nodiscard]] GraphTensor in_memory(std::int64_t id, const TensorLayout& layout);
  /// A float32 that the host gives when the graph runs.
  [[nodiscard]] GraphTensor number(std::int64_t id);
  /// A tensor that only the operations see.
  [[nodiscard]] GraphTensor inner(const TensorLayout& layout);

  void pointwise(const PointwiseOperation& asked, const GraphTensor& y);
  /// Returns: y, an inner tensor of x's shape.
  GraphTensor pointwise(const PointwiseOperation& asked);
  void multiply(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c);
  void reduce(CudnnReduction operation, const GraphTensor& x, const GraphTensor& y);
  void reshape(const GraphTensor& x, const GraphTensor& y);

  [[nodiscard]] const std::vector<void*>& operations() const { return operations_; }
  /// All objects, in the order in which they were made.
  [[nodiscard]] std::vector<CudnnObject> release() && { return std::move(owned_); }

 private:
  enum class Storage : std::uint8_t { device, host, inner };

  GraphTensor tensor(std::int64_t id, const TensorLayout& layout, Storage storage);
  void* own(int type);
  void add(void* operation);

  const CudnnObjects& objects_;
  std::vector<CudnnObject> owned_;
  std::vector<void*> operations_;
  std::int64_t next_inner_ = kFirstInner;
};

/// The target of a plan: the device of a handle, or one that a device object describes, where it cannot run.
struct CudnnTarget {
  cudnnContext* handle = nullptr;
  void* device = nullptr;
};

/// A tensor of a graph when it runs: device memory, or a number of the host.
struct CudnnArgument {
  std::int64_t id;
  const void* memory;
};

/// A graph that is ready to be computed, always in the same way, by an engine of cuDNN's choice that says
/// nothing of results that differ from run to run.
class CudnnPlan {
 public:
  static constexpr std::size_t kMaxArguments = 16;

  /// `number` of the plan among those of such engines, in cuDNN's order.
  /// Errors: throws BackendError; bad_argument where there are not so many.
  CudnnPlan(const CudnnObjects& objects, CudnnGraph graph, const CudnnTarget& target, int number = 0);

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// The library makes an object of host memory for the call; no more than that is allocated.
  /// Requires: at most kMaxArguments.
  void execute(cudnnContext* handle, std::span<const CudnnArgument> arguments, void* workspace) const;

 private:
  [[nodiscard]] CudnnObject graph_of(const std::vector<void*>& operations, const CudnnTarget& target) const;
  [[nodiscard]] std::vector<CudnnObject> choices(void* graph, const CudnnTarget& target) const;
  [[nodiscard]] bool is_deterministic(void* config) const;
  [[nodiscard]] CudnnObject plan_of(void* config, const CudnnTarget& target) const;

  const CudnnObjects& objects_;
  std::vector<CudnnObject> parts_;
  CudnnObject graph_, config_, plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace ppsim::gpu_backend::cuda

#include <algorithm>
#include <cstring>
#include <memory>

#include "support/host_kernels.hpp"
#include "transformer/kernels/fp8.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

constexpr int kInvalid = 7;        // CUBLAS_STATUS_INVALID_VALUE
constexpr int kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
constexpr std::uint32_t kUsualAlignment = 256;

/// The content of the library's opaque descriptors.
struct Layout {
  int type = 0;
  std::int64_t rows = 0, columns = 0, stride = 0, batch_stride = 0;
  std::int32_t batches = 1;
};
struct Operation {
  bool transpose_a = false, transpose_b = false;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
};

bool is_fp8(const Layout& layout) {
  return layout.type == kCudaTypeFloat8E4M3 || layout.type == kCudaTypeFloat8E5M2;
}
std::int64_t bytes_of_number(const Layout& layout) {
  if (is_fp8(layout)) return 1;
  return layout.type == kCudaTypeFloat32 ? 4 : 2;
}

/// An algorithm is for matrices that begin on multiples of so many bytes as were promised when it was chosen.
bool fit(const CublasLtAlgorithm& algorithm, std::initializer_list<const void*> matrices) {
  return std::all_of(matrices.begin(), matrices.end(), [&](const void* begin) {
    return reinterpret_cast<std::uintptr_t>(begin) % algorithm.data[0] == 0;
  });
}

/// Number (row, column) of a batch of a column-major matrix.
std::int64_t at(const Layout& layout, std::int64_t batch, std::int64_t row, std::int64_t column) {
  return batch * layout.batch_stride + column * layout.stride + row;
}
float loaded(const Layout& layout, const void* memory, std::int64_t index) {
  if (layout.type == kCudaTypeFloat32) return static_cast<const float*>(memory)[index];
  if (is_fp8(layout)) {
    const auto type = layout.type == kCudaTypeFloat8E4M3 ? cuda::Fp8::e4m3 : cuda::Fp8::e5m2;
    return cuda::from_fp8(static_cast<const std::uint8_t*>(memory)[index], type);
  }
  return cuda::to_float(static_cast<const cuda::Bf16*>(memory)[index]);
}
void store(const Layout& layout, void* memory, std::int64_t index, float value) {
  if (layout.type == kCudaTypeFloat32) {
    static_cast<float*>(memory)[index] = value;
  } else {
    static_cast<cuda::Bf16*>(memory)[index] = cuda::to_bf16(value);
  }
}

/// d = alpha * op(a) op(b) + beta * c.
struct Product {
  Operation operation;
  Layout a, b, d;
  const void* left = nullptr;
  const void* right = nullptr;
  const void* added = nullptr;
  void* result = nullptr;
  float alpha = 1, beta = 0;
  bool backwards = false;  ///< how terms are added: algorithms round otherwise

  [[nodiscard]] std::int64_t inner() const { return operation.transpose_a ? a.rows : a.columns; }
  [[nodiscard]] bool fits() const {
    const std::int64_t rows = operation.transpose_a ? a.columns : a.rows;
    const std::int64_t inner_b = operation.transpose_b ? b.columns : b.rows;
    const std::int64_t columns = operation.transpose_b ? b.rows : b.columns;
    return rows == d.rows && columns == d.columns && inner() == inner_b && a.batches == d.batches &&
           b.batches == d.batches;
  }
  /// The library's conditions for fp8 on Hopper: both operands, not both of gradients, the inner dimension
  /// without gaps, all in multiples of 16 numbers, a scale for each.
  [[nodiscard]] bool is_supported() const {
    if (!is_fp8(a) && !is_fp8(b)) return true;
    const bool types = is_fp8(a) && is_fp8(b) && !is_fp8(d) &&
                       !(a.type == kCudaTypeFloat8E5M2 && b.type == kCudaTypeFloat8E5M2);
    const bool layouts = operation.transpose_a && !operation.transpose_b;
    const bool scales = operation.scale_a != nullptr && operation.scale_b != nullptr;
    const auto numbers = {a.rows, a.columns, a.stride, b.columns, b.stride, d.stride};
    return types && layouts && scales &&
           std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n % 16 == 0; });
  }
  void compute() const {
    for (std::int64_t n = 0; n < d.batches; ++n) {
      for (std::int64_t column = 0; column < d.columns; ++column) {
        for (std::int64_t row = 0; row < d.rows; ++row)
          store(d, result, at(d, n, row, column), sum(n, row, column));
      }
    }
  }
  [[nodiscard]] float sum(std::int64_t n, std::int64_t row, std::int64_t column) const {
    float total = 0;
    for (std::int64_t term = 0; term < inner(); ++term) {
      const std::int64_t i = backwards ? inner() - 1 - term : term;
      total += loaded(a, left, operation.transpose_a ? at(a, n, i, row) : at(a, n, row, i)) *
               loaded(b, right, operation.transpose_b ? at(b, n, column, i) : at(b, n, i, column));
    }
    if (operation.scale_a != nullptr) total *= *operation.scale_a;
    if (operation.scale_b != nullptr) total *= *operation.scale_b;
    const float before = beta == 0 ? 0 : beta * loaded(d, added, at(d, n, row, column));
    return alpha * total + before;
  }
  /// Column by column, since what lies between the columns of a matrix may belong to another one.
  static void touch(const Layout& layout, const void* memory, std::vector<std::span<const std::byte>>& into) {
    const std::int64_t size = bytes_of_number(layout);
    for (std::int64_t n = 0; n < layout.batches; ++n) {
      for (std::int64_t column = 0; column < layout.columns; ++column) {
        const auto* begin = static_cast<const std::byte*>(memory) + at(layout, n, 0, column) * size;
        into.emplace_back(begin, static_cast<std::size_t>(layout.rows * size));
      }
    }
  }
  [[nodiscard]] KernelAccess access() const {
    KernelAccess all;
    touch(a, left, all.reads);
    touch(b, right, all.reads);
    if (beta != 0) touch(d, added, all.reads);
    touch(d, result, all.writes);
    for (const float* scale : {operation.scale_a, operation.scale_b}) {
      if (scale != nullptr) all.reads.push_back(std::as_bytes(std::span(scale, 1)));
    }
    return all;
  }
};

int set_layout(void* object, int attribute, const void* value, std::size_t) {
  auto* layout = static_cast<Layout*>(object);
  if (attribute == kCublasLtBatchCount) {
    std::memcpy(&layout->batches, value, sizeof layout->batches);
  } else if (attribute == kCublasLtBatchStride) {
    std::memcpy(&layout->batch_stride, value, sizeof layout->batch_stride);
  } else {
    return kInvalid;
  }
  return 0;
}
int set_operation(void* object, int attribute, const void* value, std::size_t size) {
  if (attribute == kCublasLtScaleA || attribute == kCublasLtScaleB) {
    auto* const of = static_cast<Operation*>(object);
    std::memcpy(attribute == kCublasLtScaleA ? &of->scale_a : &of->scale_b, value, size);
    return 0;
  }
  std::int32_t transpose = 0;
  std::memcpy(&transpose, value, sizeof transpose);
  auto* operation = static_cast<Operation*>(object);
  if (attribute == kCublasLtTransposeA) {
    operation->transpose_a = transpose == kCublasTranspose;
  } else if (attribute == kCublasLtTransposeB) {
    operation->transpose_b = transpose == kCublasTranspose;
  } else if (attribute != kCublasLtMultiprocessors || size != sizeof transpose) {
    return kInvalid;
  }
  return 0;
}
template <class T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  return 0;
}

/// The preferences for an algorithm, and the choice.
void fill_choice(CublasLtTable& table) {
  table.preference_create = [](void** object) {
    *object = new std::uint32_t(kUsualAlignment);
    return 0;
  };
  table.preference_destroy = destroy<std::uint32_t>;
  table.preference_set = [](void* object, int attribute, const void* value, std::size_t) {
    if (attribute != kCublasLtLargestWorkspace) std::memcpy(object, value, sizeof(std::uint32_t));
    return 0;
  };
  table.choose = [](cublasLtContext*, void* operation, void* a, void* b, void*, void* d, void* preference,
                    int wanted, CublasLtChoice* choice, int* found) {
    const int proposed = std::min(wanted, 3);
    for (int i = 0; i < proposed; ++i) {
      choice[i].algorithm.data[0] = *static_cast<std::uint32_t*>(preference);
      choice[i].algorithm.data[1] = static_cast<std::uint64_t>(i);
    }
    const Product product{*static_cast<Operation*>(operation), *static_cast<Layout*>(a),
                          *static_cast<Layout*>(b), *static_cast<Layout*>(d)};
    *found = product.is_supported() ? proposed : 0;
    return product.is_supported() ? 0 : kNotSupported;
  };
}

}  // namespace

CublasLtTable host_cublaslt(const HostQueue& queue) {
  CublasLtTable table;
  table.version = [] { return std::size_t{0}; };
  table.error_name = [](int status) {
    if (status == kNotSupported) return "CUBLAS_STATUS_NOT_SUPPORTED";
    return status == kInvalid ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_EXECUTION_FAILED";
  };
  table.error_text = [](int) { return "an error of the stand-in for cuBLASLt"; };
  table.create = [](cublasLtContext** handle) {
    *handle = reinterpret_cast<cublasLtContext*>(new int(0));
    return 0;
  };
  table.destroy = [](cublasLtContext* handle) { return destroy<int>(handle); };
  table.operation_create = [](void** object, int, int) {
    *object = new Operation();
    return 0;
  };
  table.operation_destroy = destroy<Operation>;
  table.operation_set = set_operation;
  table.layout_create = [](void** object, int type, std::uint64_t rows, std::uint64_t columns,
                           std::int64_t stride) {
    *object = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
    return stride < static_cast<std::int64_t>(rows) ? kInvalid : 0;
  };
  table.layout_destroy = destroy<Layout>;
  table.layout_set = set_layout;
  fill_choice(table);
  table.multiply = [queue](cublasLtContext*, void* operation, const void* alpha, const void* a,
                           void* a_layout, const void* b, void* b_layout, const void* beta, const void* c,
                           void*, void* d, void* d_layout, const CublasLtAlgorithm* algorithm,
                           void* workspace, std::size_t workspace_bytes, CUstream_st* stream) {
    const Product product{*static_cast<Operation*>(operation),
                          *static_cast<Layout*>(a_layout),
                          *static_cast<Layout*>(b_layout),
                          *static_cast<Layout*>(d_layout),
                          a,
                          b,
                          c,
                          d,
                          *static_cast<const float*>(alpha),
                          *static_cast<const float*>(beta),
                          algorithm->data[1] == 1};
    if (!product.fits() || !fit(*algorithm, {a, b, d})) return kInvalid;
    KernelAccess access = product.access();
    access.writes.emplace_back(static_cast<const std::byte*>(workspace), workspace_bytes);
    return queue(stream, access, [product] { product.compute(); });
  };
  return table;
}

}  // namespace ppsim::test

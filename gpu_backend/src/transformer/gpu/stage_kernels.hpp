#pragma once

#include <span>
#include <vector>

#include "attention/flash_attention.hpp"
#include "device/cuda/kernel_errors.hpp"
#include "fp8_weights.hpp"
#include "products.hpp"
#include "transformer/cpu/transformer_tensors.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim::gpu_backend::cuda {

using transformer::Dimensions;
using transformer::Index;
using transformer::StageRole;
using transformer::TokenRange;
using transformer::View;
using transformer::vocabulary_of;

template <class T>
inline constexpr Stored kStored = Stored::ring;
template <>
inline constexpr Stored kStored<Bf16> = Stored::bf16;
template <>
inline constexpr Stored kStored<float> = Stored::float32;

template <class T>
using SumOf = typename Numbers<T>::Sum;

/// The products of the attention of a slice in one sequence, all heads as one batch, with the keys and values
/// of a slice `of`, which is itself or one before it. Scores have a row for each token of the slice and a
/// column for each that it reads, of which these products take those of `of`. Gradients of keys and values
/// are added to the KV gradient, which the last slice of a sequence begins; its own ones stay with it.
struct AttentionShapes {
  AttentionShapes(const Dimensions& d, const Dimensions& of);

  ProductShape scores, attended, d_values, d_scores, d_queries, d_keys;
};

/// Every product of a stage in every slice of a microbatch, where heads are of so many tokens and their
/// weights, if tied, have a row for each of them.
[[nodiscard]] std::vector<ProductShape> product_shapes(std::span<const Dimensions> slices,
                                                       std::span<const Index> head_widths, bool tied = false);

/// The kernels of one action, on its stream.
template <class T>
class StageKernels {
 public:
  using Sum = SumOf<T>;

  struct Libraries {
    const KernelTable& kernels;
    Products& products;
    const CudaTable& cuda;
    const FlashAttention* flash = nullptr;  ///< null: attention is products and a softmax
    const Fp8Weights* fp8 = nullptr;        ///< of the block; null: products of weights are not in fp8
  };
  StageKernels(const Libraries& libraries, GpuStream stream)
      : kernels_(libraries.kernels),
        products_(libraries.products),
        cuda_(libraries.cuda),
        flash_(libraries.flash),
        fp8_(libraries.fp8),
        stream_(stream) {}

  void product(const ProductShape& shape, const void* a, const void* b, void* c) const {
    products_.multiply(stream_, shape, {a, b, c});
  }
  /// The same with products that never round to fp8, as the head needs them.
  [[nodiscard]] StageKernels exact() const {
    StageKernels result = *this;
    result.rounds_ = false;
    return result;
  }
  /// y = x * weights, or added to it.
  void forward(const View<T>& x, const View<T>& weights, View<T>& y, bool accumulate = false) const {
    products_.multiply(stream_, rounded(forward_shape(x.rows(), weights.rows(), weights.cols(), accumulate)),
                       {x.data(), weights.data(), y.data(), fp8_of(weights, &Fp8Copy::by_columns)});
  }
  void backward_input(const View<T>& d_y, const View<T>& weights, View<T>& d_x) const {
    products_.multiply(stream_, rounded(input_shape(d_x.rows(), weights.rows(), weights.cols())),
                       {d_y.data(), weights.data(), d_x.data(), fp8_of(weights, &Fp8Copy::by_rows)});
  }
  void backward_weight(const View<T>& x, const View<T>& d_y, View<Sum>& d_weights) const {
    product(rounded(weight_shape(x.rows(), d_weights.rows(), d_weights.cols())), x.data(), d_y.data(),
            d_weights.data());
  }

  template <class Call>
  void run(const std::function<int(void*, Stored, const Call&)>& launcher, const Call& call,
           const char* what) const {
    check_launch(cuda_, launcher(stream_, kStored<T>, call), what);
  }
  void copy(const View<T>& from, View<T>& to) const {
    check_cuda(
        cuda_,
        cuda_.copy_async(address(to.data()), address(from.data()), as_size(from.size()) * sizeof(T), stream_),
        "copying a tensor");
  }
  /// into += from, both boundaries of stages, which lie at any distance.
  void add_boundary(const View<T>& from, View<T>& into) const {
    const auto at = [](const View<T>& of) { return reinterpret_cast<std::intptr_t>(of.data()); };
    run(kernels_.sum_parts, SumParts{2, at(from) - at(into), into.size(), into.data()}, "adding boundaries");
  }
  void add(const View<Sum>& from, View<Sum>& into) const {
    run(kernels_.accumulate, Accumulate{from.size(), into.data(), from.data()}, "adding gradients");
  }
  void draw_tokens(const DrawTokens& call) const {
    check_launch(cuda_, kernels_.draw_tokens(stream_, call), "drawing tokens");
  }
  [[nodiscard]] const KernelTable& table() const { return kernels_; }
  [[nodiscard]] const FlashAttention* flash() const { return flash_; }
  [[nodiscard]] GpuStream stream() const { return stream_; }

 private:
  [[nodiscard]] ProductShape rounded(const ProductShape& shape) const {
    return rounds_ ? shape : unrounded(shape);
  }
  [[nodiscard]] Fp8Matrix fp8_of(const View<T>& weights, std::uint8_t* Fp8Copy::*numbers) const {
    if (!rounds_ || fp8_ == nullptr) return {};
    const Fp8Copy copy = fp8_->of(weights.data());
    return {copy.*numbers, copy.scale};
  }
  static CudaAddress address(const void* memory) { return reinterpret_cast<CudaAddress>(memory); }

  const KernelTable& kernels_;
  Products& products_;
  const CudaTable& cuda_;
  const FlashAttention* flash_;
  const Fp8Weights* fp8_;
  GpuStream stream_;
  bool rounds_ = true;
};

}  // namespace ppsim::gpu_backend::cuda

#include "gpu_transformer.hpp"

#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "device/cuda/device_memory.hpp"
#include "device/cuda/kernel_cuda.hpp"
#include "first_parameters.hpp"
#include "fp8_weights.hpp"
#include "gpu_pass.hpp"
#include "gpu_transformer_sizes.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/model/transformer_slices.hpp"
#include "transformer/model/transformer_vocabulary.hpp"

namespace ppsim::gpu_backend {
namespace cuda {
namespace {

using transformer::Arena;

/// Products in fp8 are a matter of the device.
void check_fp8(const CudaTable& cuda, const GpuPlace& place) {
  constexpr int kMin = 89;
  int device = 0;
  int major = 0;
  int minor = 0;
  check_cuda(cuda, cuda.device_get(&device, place.device), "asking for the device");
  check_cuda(cuda, cuda.device_attribute(&major, kCudaAttributeMajor, device), "asking for its capability");
  check_cuda(cuda, cuda.device_attribute(&minor, kCudaAttributeMinor, device), "asking for its capability");
  if (10 * major + minor >= kMin) return;
  throw BackendError(ErrorCode::bad_argument,
                     "fp8 needs a device of compute capability 8.9 or more; device " +
                         std::to_string(place.device) + " has " + std::to_string(major) + "." +
                         std::to_string(minor));
}

/// Each slice is a separate matrix.
Expected<void> check_fp8_slices(const TransformerConfig& config, int slices) {
  if (config.arithmetic != Arithmetic::fp8) return {};
  for (const Dimensions& d : transformer::slices_of(config, slices)) {
    if (d.rows % kFp8Alignment == 0) continue;
    return make_error(ErrorCode::bad_argument,
                      "fp8 needs the tokens of every slice of a microbatch in multiples of " +
                          std::to_string(kFp8Alignment),
                      {.found = "a slice with " + std::to_string(d.rows) + " tokens"});
  }
  return {};
}

/// Of how many tokens the heads of a pipeline's stages are.
std::vector<Index> head_widths(const Pipeline& pipeline, const TransformerConfig& config) {
  std::set<Index> widths;
  for (const StageId stage : pipeline.stage_ids()) {
    const auto role = transformer::role_of(pipeline, config.layers, stage);
    if (role && role->head) widths.insert(vocabulary_of(Dimensions(config), *role).count);
  }
  return {widths.begin(), widths.end()};
}

template <class T>
std::unique_ptr<Products> open_products(const TransformerConfig& config, const GpuPlace& place,
                                        const TransformerLibraries& libraries,
                                        const std::vector<ProductShape>& shapes) {
  if constexpr (std::is_same_v<T, Ring>) {
    return ring_products(*libraries.kernels, libraries.cuda());
  } else {
    if (config.arithmetic == Arithmetic::fp8) {
      check_fp8(libraries.cuda(), place);
      return fp8_products({libraries.cublaslt(), libraries.cuda(), *libraries.kernels}, shapes);
    }
    return cublaslt_products(libraries.cublaslt(), libraries.cuda(), kStored<T>, shapes);
  }
}

/// Null where attention is products.
std::unique_ptr<FlashAttention> open_attention(const AttentionChoice& choice,
                                               const TransformerLibraries& libraries,
                                               const TransformerConfig& config) {
  if (!choice.flash) return nullptr;
  return std::make_unique<FlashAttention>(libraries.cudnn(), AttentionSizes(config), choice.workspace);
}

/// How the stages of a model are computed, on whatever rank.
struct StageMeans {
  const TransformerConfig& config;
  const TransformerLibraries& libraries;
  const AttentionChoice& attention;
};

/// The stages of one rank.
template <class T>
class TransformerStages final : public GpuStages {
 public:
  using Sum = SumOf<T>;

  TransformerStages(const StageMeans& means, const Pipeline& pipeline, const GpuPlace& place)
      : config_(means.config),
        d_(config_),
        slices_(slices_of(config_, pipeline.slices(), means.attention)),
        workspace_(means.attention.workspace),
        pipeline_(pipeline),
        place_(place),
        kernels_(*means.libraries.kernels),
        cuda_(means.libraries.cuda()),
        products_(open_products<T>(
            config_, place, means.libraries,
            product_shapes(slices_, head_widths(pipeline, config_), transformer::is_tied(pipeline)))),
        flash_(open_attention(means.attention, means.libraries, config_)),
        rounding_(config_.arithmetic == Arithmetic::fp8 ? std::make_unique<Fp8Rounding>(kernels_, cuda_)
                                                        : nullptr),
        partials_(cuda_, kPartials * sizeof(double), "the partial sums of norms") {}

  void initialize(GpuStream stream, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> state) override {
    fill(stream, parameters);
    fill(stream, state);
    const StageRole role = transformer::role_of(pipeline_, config_.layers, block);
    Arena arena(parameters);
    const transformer::StageWeights<T> weights(arena, d_, role);
    draw_first_parameters<T>({kernels_, cuda_, d_, config_.seed, stream}, role, weights);
    const auto count = static_cast<std::int64_t>(arena.used() / sizeof(T));
    const StartState call{count, parameters.data(), state.data(), steps(state)};
    check_launch(cuda_, kernels_.start_state(stream, kStored<T>, call), "the optimizer's first state");
    round_weights(stream, role, parameters);
  }

  void load(GpuStream stream, MicrobatchId mb, const ActionBuffers& buffers) override {
    DrawTokens call = draw_of(mb, buffers);
    call.tokens = reinterpret_cast<std::int32_t*>(buffers.x.data());
    check_launch(cuda_, kernels_.draw_tokens(stream, call), "drawing tokens");
  }

  void compute(GpuStream stream, const Action& action, const ActionBuffers& buffers) override {
    for (const std::span<std::byte> side : buffers.side_outputs) {
      const WriteNumber call{action.microbatch, reinterpret_cast<std::int64_t*>(side.data())};
      check_launch(cuda_, kernels_.write_number(stream, call), "writing the number of a microbatch");
    }
    const StageRole role = transformer::role_of(pipeline_, config_.layers, action);
    std::optional<Fp8Weights> fp8;
    if (rounding_) {
      Arena arena(buffers.parameters);
      fp8.emplace(arena, d_, role);
    }
    compute_stage({role, slices_, buffers},
                  StageKernels<T>({kernels_, *products_, cuda_, flash_.get(), fp8 ? &*fp8 : nullptr}, stream),
                  {config_.seed, draw_of(action.mb(), buffers), workspace_}, action.kind);
  }

  void update(GpuStream stream, const UpdateBuffers& buffers) override {
    const Descend call{.count = sums(buffers.gradients),
                       .adam = config_.optimizer == Optimizer::adamw,
                       .learning_rate = config_.learning_rate,
                       .beta1 = config_.momentum,
                       .beta2 = config_.second_beta,
                       .epsilon = 1e-8,
                       .weight_decay = config_.weight_decay,
                       .squared_norm = buffers.squared_norm,
                       .largest_norm = buffers.largest_norm,
                       .parameters = buffers.parameters.data(),
                       .gradients = buffers.gradients.data(),
                       .state = buffers.optimizer_state.data(),
                       .steps = steps(buffers.optimizer_state),
                       .factors = factors(buffers.optimizer_state)};
    check_launch(cuda_, kernels_.descend(stream, kStored<T>, call), "an optimizer step");
    if (!rounding_) return;
    round_weights(stream, transformer::role_of(pipeline_, config_.layers, buffers.block), buffers.parameters);
  }

  void accumulate(GpuStream stream, std::span<std::byte> into, std::span<const std::byte> from) override {
    PPSIM_CHECK(into.size() == from.size(), "gradients of one block differ in size");
    const Accumulate call{static_cast<std::int64_t>(into.size() / sizeof(Sum)), into.data(), from.data()};
    check_launch(cuda_, kernels_.accumulate(stream, kStored<T>, call), "adding gradients");
  }

  void add_squared_norm(GpuStream stream, std::span<const std::byte> gradients, double* sum) override {
    const SquaredNorm call{sums(gradients), gradients.data(), partials_.as<double>(), sum};
    check_launch(cuda_, kernels_.squared_norm(stream, kStored<T>, call), "the norm of gradients");
  }

  void add_norm(GpuStream stream, double* into, const double* from) override {
    check_launch(cuda_, kernels_.add_norm(stream, {into, from}), "adding norms");
  }

  void combine(GpuStream stream, CollectiveId /*collective*/,
               std::span<const CollectivePart> parts) override {
    const auto count = static_cast<std::int64_t>(parts.size());
    const CollectivePart& first = parts.front();
    if (first.statistics.empty()) {
      const SumParts call{count, stride_of(parts, &CollectivePart::summand), d_.rows * d_.hidden,
                          first.summand.data()};
      return check_launch(cuda_, kernels_.sum_parts(stream, kStored<T>, call), "adding parts");
    }
    MergeLoss call{.parts = count,
                   .stride = stride_of(parts, &CollectivePart::statistics),
                   .rows = d_.rows,
                   .columns = d_.hidden,
                   .tokens = d_.rows,
                   .statistics = first.statistics.data(),
                   .scaled = nullptr,
                   .of_targets = nullptr};
    if (!first.summand.empty()) {
      PPSIM_CHECK(stride_of(parts, &CollectivePart::summand) == call.stride, "parts of different makes");
      Arena arena(first.summand);
      transformer::EarlyGradient<T> early(arena, d_);
      call.scaled = early.scaled.data();
      call.of_targets = early.of_targets.data();
    }
    check_launch(cuda_, kernels_.merge_loss(stream, kStored<T>, call), "merging parts of a loss");
  }

  void time_algorithms(const WorkTimer& time_of, Algorithms& known) override {
    products_->time_algorithms({time_of, algorithm_place(), kernels_, kStored<T>}, known);
  }
  void take_algorithms(const Algorithms& known) override {
    products_->take_algorithms(algorithm_place(), known);
  }

 private:
  [[nodiscard]] AlgorithmPlace algorithm_place() const {
    return {device_name(cuda_, place_.device), place_.multiprocessors};
  }
  /// Bytes from a tensor of a part to that of the next, whichever these are.
  static std::int64_t stride_of(std::span<const CollectivePart> parts,
                                std::span<std::byte> CollectivePart::*tensor) {
    const auto distance = [&](std::size_t p) {
      return (parts[p].*tensor).data() - (parts[p - 1].*tensor).data();
    };
    const std::int64_t stride = parts.size() < 2 ? 0 : distance(1);
    for (std::size_t p = 2; p < parts.size(); ++p)
      PPSIM_CHECK(distance(p) == stride, "parts of a collective lie at different distances");
    return stride;
  }
  /// Draws the tokens that a slice has in the step, for the microbatch that a side edge tells, if one does.
  DrawTokens draw_of(MicrobatchId mb, const ActionBuffers& buffers) const {
    const Dimensions& slice = slices_[as_size(buffers.slice)];
    return {.seed = config_.seed,
            .step = buffers.step,
            .microbatch = told(buffers),
            .per_step = transformer::first_sequence(pipeline_, d_, MicrobatchId(0), 1),
            .first = transformer::first_sequence(pipeline_, d_, mb, 0),
            .sequences = d_.sequences,
            .before = slice.before,
            .length = slice.length,
            .vocab = config_.vocab,
            .next = false,
            .tokens = nullptr};
  }
  static const std::int64_t* told(const ActionBuffers& buffers) {
    if (buffers.side_inputs.empty()) return nullptr;
    return reinterpret_cast<const std::int64_t*>(buffers.side_inputs.front().data());
  }
  /// How many gradients a block has: one for each of its parameters.
  static std::int64_t sums(std::span<const std::byte> gradients) {
    return static_cast<std::int64_t>((gradients.size() - transformer::kLossBytes) / sizeof(Sum));
  }
  /// Leaves weights that were written in fp8, too, for all actions until the next update.
  void round_weights(GpuStream stream, const StageRole& role, std::span<std::byte> parameters) const {
    if (!rounding_) return;
    Arena arena(parameters);
    Fp8Weights(arena, d_, role).make(stream, *rounding_);
  }
  static std::int64_t* steps(std::span<std::byte> state) {
    if (state.size() < kStepBytes) return nullptr;
    return reinterpret_cast<std::int64_t*>(state.data() + state.size() - kStepBytes);
  }
  /// Behind that number.
  static float* factors(std::span<std::byte> state) {
    std::int64_t* const of = steps(state);
    return of == nullptr ? nullptr : reinterpret_cast<float*>(of + 1);
  }
  void fill(GpuStream stream, std::span<std::byte> memory) {
    if (memory.empty()) return;
    const auto address = reinterpret_cast<CudaAddress>(memory.data());
    check_cuda(cuda_, cuda_.fill_async(address, 0, memory.size(), stream), "clearing parameters");
  }

  TransformerConfig config_;
  Dimensions d_;
  std::vector<Dimensions> slices_;
  AttentionWorkspace workspace_;
  const Pipeline& pipeline_;
  GpuPlace place_;
  KernelTable kernels_;
  CudaTable cuda_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<FlashAttention> flash_;
  std::unique_ptr<Fp8Rounding> rounding_;  ///< null: weights are not in fp8
  DeviceMemory partials_;
};

template <class T>
class GpuTransformer final : public GpuStageModel {
 public:
  GpuTransformer(const TransformerConfig& config, TransformerLibraries libraries)
      : config_(config), libraries_(std::move(libraries)) {}

  Expected<void> check(const Pipeline& pipeline) const override {
    if (!libraries_.kernels) {
      return make_error(ErrorCode::bad_argument, kNoKernels);
    }
    if (config_.attention == AttentionKernels::cudnn && !attention(pipeline).flash) {
      return make_error(ErrorCode::bad_argument, "attention by cuDNN was asked for and cannot be had",
                        {.found = attention(pipeline).text, .expected = "cuDNN, or attention by GEMMs"});
    }
    if (!pipeline.spec().side_edges.empty() && batch_microbatches(pipeline) < pipeline.microbatches()) {
      return make_error(ErrorCode::bad_argument, "side edges and padding together are not supported on a GPU",
                        {.found = "a side edge and padding", .expected = "one of them, or a CPU"});
    }
    PPSIM_RETURN_IF_ERROR(transformer::check_slices(config_, pipeline.slices()));
    PPSIM_RETURN_IF_ERROR(check_fp8_slices(config_, pipeline.slices()));
    PPSIM_RETURN_IF_ERROR(transformer::check_roles(pipeline, config_.layers));
    return transformer::check_vocabulary(pipeline, config_.vocab);
  }
  Expected<void> check_actions(const Program& program) const override {
    PPSIM_RETURN_IF_ERROR(transformer::check_kept_slices(program));
    return transformer::check_kept_statistics(program);
  }
  SizeTable sizes(const Pipeline& pipeline) const override {
    return gpu_transformer_sizes<T>(config_, pipeline, attention(pipeline));
  }
  Bytes statistics_bytes(const Pipeline& pipeline, CollectiveId collective) const override {
    if (!transformer::shares_statistics(pipeline, collective)) return 0;
    return Dimensions(config_).rows * static_cast<Bytes>(sizeof(LossParts<SumOf<T>>));
  }
  std::string kernels_text(const Pipeline& pipeline) const override {
    return "attention by " + attention(pipeline).text;
  }
  ElementType gradient_type() const override {
    return std::is_same_v<T, Ring> ? ElementType::uint64 : ElementType::float32;
  }
  Bytes loss_bytes(const Pipeline& pipeline, BlockId block) const override {
    return transformer::role_of(pipeline, config_.layers, block).has_loss() ? Bytes{transformer::kLossBytes}
                                                                            : 0;
  }
  double loss(std::span<const std::byte> bytes) const override {
    SumOf<T> sum{};
    std::memcpy(&sum, bytes.data(), sizeof sum);
    if constexpr (std::is_same_v<T, Ring>) return static_cast<double>(static_cast<std::int64_t>(sum));
    return static_cast<double>(sum);
  }
  std::unique_ptr<GpuStages> open(const Pipeline& pipeline, const GpuPlace& place) const override {
    return std::make_unique<TransformerStages<T>>(StageMeans{config_, libraries_, attention(pipeline)},
                                                  pipeline, place);
  }

 private:
  /// Decided once, since sizes follow from it; several ranks may ask.
  struct Decision {
    std::once_flag made;
    AttentionChoice choice;
  };
  const AttentionChoice& attention(const Pipeline& pipeline) const {
    Decision& decision = pipeline.slices() == 1 ? whole_ : sliced_;
    std::call_once(decision.made,
                   [&] { decision.choice = choose_attention(config_, pipeline.slices(), libraries_); });
    return decision.choice;
  }

  TransformerConfig config_;
  TransformerLibraries libraries_;
  mutable Decision whole_, sliced_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<GpuStageModel> make_gpu_transformer(const TransformerConfig& config,
                                                    TransformerLibraries libraries) {
  switch (config.arithmetic) {
    case Arithmetic::bf16:
    case Arithmetic::fp8:
      return std::make_unique<cuda::GpuTransformer<cuda::Bf16>>(config, std::move(libraries));
    case Arithmetic::float32:
      return std::make_unique<cuda::GpuTransformer<float>>(config, std::move(libraries));
    case Arithmetic::integer_exact:
      return std::make_unique<cuda::GpuTransformer<cuda::Ring>>(config, std::move(libraries));
    case Arithmetic::float64:
      return nullptr;
  }
  return nullptr;
}

TransformerLibraries machine_libraries() {
  TransformerLibraries libraries{std::nullopt, [] { return load_cublaslt(); }, [] { return load_cuda(); },
                                 [] { return load_cudnn(); }};
#if defined(PPSIM_HAS_KERNELS)
  libraries.kernels = cuda::compiled_kernels();
#endif
  return libraries;
}

}  // namespace ppsim::gpu_backend

#include "support/host_cudnn.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "support/host_cudnn_graph.hpp"
#include "support/host_cudnn_rules.hpp"

namespace ppsim::test {
namespace {

namespace attribute = cudnn_attribute;

constexpr int kBadParameter = 2000;
constexpr int kNotFinalized = 2004;
constexpr int kMisaligned = 2003;
constexpr int kBadAttributeType = 2010;
constexpr int kUnsupportedGraph = 3001;

std::size_t bytes_of_type(int type) {
  switch (type) {
    case cudnn_type::kBoolean:
    case cudnn_type::kChar:
      return 1;
    case cudnn_type::kInt64:
    case cudnn_type::kHandle:
    case cudnn_type::kPointer:
    case cudnn_type::kObject:
      return 8;
    default:
      return 4;
  }
}

struct Object {
  int kind = 0;
  bool finished = false;
  std::map<int, std::vector<std::byte>> values = {};
  std::shared_ptr<const CudnnSteps> steps = nullptr;  ///< of a graph, and of what is made from it
  int engine = -1;                                    ///< of a configuration, an engine and a plan

  template <class T>
  [[nodiscard]] std::vector<T> all(int of) const {
    const auto found = values.find(of);
    if (found == values.end()) return {};
    std::vector<T> result(found->second.size() / sizeof(T));
    std::memcpy(result.data(), found->second.data(), found->second.size());
    return result;
  }
  template <class T>
  [[nodiscard]] T one(int of, T otherwise = {}) const {
    const std::vector<T> found = all<T>(of);
    return found.empty() ? otherwise : found.front();
  }
  [[nodiscard]] const Object& object(int of) const { return *static_cast<Object*>(one<void*>(of)); }
  [[nodiscard]] bool has(int of) const { return values.contains(of); }
};

struct Handle {
  CUstream_st* stream = nullptr;
};

/// The values of an attribute, and where they are wanted.
struct Given {
  int type;
  std::int64_t count;
  const void* values;
};
struct Asked {
  std::int64_t most;
  std::int64_t* count;
  void* values;
};

/// All objects and handles of one stand-in.
class Cudnn {
 public:
  Cudnn(HostQueue queue, const HostCudnnOptions& options, std::shared_ptr<HostCudnnBooks> books)
      : queue_(std::move(queue)), options_(options), books_(std::move(books)) {}

  int create_handle(cudnnContext** out) {
    auto* const made = new Handle();
    handles_.insert(made);
    ++books_->live;
    *out = reinterpret_cast<cudnnContext*>(made);
    return kCudnnSuccess;
  }
  int destroy_handle(cudnnContext* handle) { return destroy(handles_, reinterpret_cast<Handle*>(handle)); }
  int set_stream(cudnnContext* handle, CUstream_st* stream) {
    auto* const one = reinterpret_cast<Handle*>(handle);
    if (!handles_.contains(one)) return refuse(kBadParameter, "a stream for no handle");
    one->stream = stream;
    return kCudnnSuccess;
  }
  int create(int kind, void** out) {
    auto* const made = new Object{.kind = kind};
    objects_.insert(made);
    ++books_->live;
    *out = made;
    return kCudnnSuccess;
  }
  int destroy(void* object) { return destroy(objects_, static_cast<Object*>(object)); }

  int set(void* object, int of, const Given& given) {
    auto* const one = static_cast<Object*>(object);
    if (!objects_.contains(one)) return refuse(kBadParameter, "an attribute of no object");
    if (one->finished) return refuse(kBadParameter, "a finished object is changed");
    const auto* const rule =
        std::find_if(std::begin(kCudnnRules), std::end(kCudnnRules),
                     [&](const CudnnRule& r) { return r.object == one->kind && r.attribute == of; });
    if (rule == std::end(kCudnnRules))
      return refuse(kBadParameter, "an attribute that the object does not have");
    if (rule->type != given.type) return refuse(kBadAttributeType, "an attribute of another type");
    if (given.count < 1 || (rule->count != kAny && rule->count != given.count) || given.values == nullptr)
      return refuse(kBadParameter, "an attribute with the wrong number of values");
    const auto* const bytes = static_cast<const std::byte*>(given.values);
    one->values[of].assign(bytes, bytes + bytes_of_type(given.type) * static_cast<std::size_t>(given.count));
    return given.type == cudnn_type::kObject ? check_parts(*one, of) : kCudnnSuccess;
  }

  int finish(void* object) {
    auto* const one = static_cast<Object*>(object);
    if (!objects_.contains(one) || one->finished) return refuse(kBadParameter, "finished twice, or nothing");
    for (const CudnnRule& rule : kCudnnRules) {
      if (rule.object == one->kind && rule.required && !one->has(rule.attribute))
        return refuse(kBadParameter, "attribute " + std::to_string(rule.attribute) + " is missing");
    }
    if (const int status = finish_kind(*one); status != kCudnnSuccess) return status;
    one->finished = true;
    return kCudnnSuccess;
  }

  int get(void* object, int of, const Asked& asked) {
    const auto& [most, count, values] = asked;
    auto* const one = static_cast<Object*>(object);
    if (!objects_.contains(one) || !one->finished)
      return refuse(kNotFinalized, "an unfinished object is read");
    if (one->kind == cudnn_object::kHeuristics && of == attribute::kHeuristicsResults)
      return get_configs(*one, most, count, static_cast<Object**>(values));
    if (one->kind == cudnn_object::kEngineConfig && of == attribute::kConfigEngine) {
      Object* const engine = *static_cast<Object**>(values);
      engine->engine = one->engine;
      engine->finished = true;
      *count = 1;
      return kCudnnSuccess;
    }
    if (one->kind == cudnn_object::kEngine && of == attribute::kEngineNotes) {
      const int note = kCudnnNoteNondeterministic;
      *count = options_.deterministic ? 0 : 1;
      std::memcpy(values, &note, sizeof note);
      return kCudnnSuccess;
    }
    if (one->kind != cudnn_object::kPlan || of != attribute::kPlanWorkspace)
      return refuse(kBadParameter, "an attribute that cannot be read");
    const auto bytes = static_cast<std::int64_t>(workspace_of(*one->steps));
    *count = 1;
    std::memcpy(values, &bytes, sizeof bytes);
    return kCudnnSuccess;
  }

  int execute(cudnnContext* handle, void* plan, void* arguments) {
    auto* const how = static_cast<Object*>(plan);
    auto* const what = static_cast<Object*>(arguments);
    auto* const on = reinterpret_cast<Handle*>(handle);
    if (!handles_.contains(on) || !objects_.contains(how) || !objects_.contains(what))
      return refuse(kBadParameter, "something is executed that is gone");
    if (!how->finished || !what->finished) return refuse(kNotFinalized, "something unfinished is executed");
    if (how->one<void*>(attribute::kPlanHandle) != on)
      return refuse(kBadParameter, "a plan for another handle");
    const auto ids = what->all<std::int64_t>(attribute::kArgumentIds);
    const auto pointers = what->all<void*>(attribute::kArgumentPointers);
    if (ids.size() != pointers.size()) return refuse(kBadParameter, "ids and pointers differ in number");
    std::map<std::int64_t, void*> memory;
    for (std::size_t i = 0; i < ids.size(); ++i) memory[ids[i]] = pointers[i];
    return enqueue(on->stream, *how, memory, what->one<void*>(attribute::kArgumentWorkspace));
  }

  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  template <class T>
  int destroy(std::set<T*>& all, T* one) {
    if (all.erase(one) == 0) {
      ++books_->double_free;
      return refuse(kBadParameter, "something is destroyed twice");
    }
    --books_->live;
    delete one;
    return kCudnnSuccess;
  }
  int refuse(int status, std::string why) {
    last_error_ = std::move(why);
    return status;
  }

  /// Objects that others are made of are there, and finished.
  int check_parts(const Object& whole, int of) {
    for (void* const part : whole.all<void*>(of)) {
      auto* const one = static_cast<Object*>(part);
      if (!objects_.contains(one)) return refuse(kBadParameter, "a part that is no object");
      if (!one->finished) return refuse(kNotFinalized, "a part that is not finished");
    }
    return kCudnnSuccess;
  }

  static CudnnTensor tensor_of(const Object& object) {
    CudnnTensor tensor{.id = object.one<std::int64_t>(attribute::kTensorId),
                       .type = object.one<int>(attribute::kTensorType),
                       .alignment = object.one<std::int64_t>(attribute::kTensorAlignment),
                       .is_virtual = object.one<char>(attribute::kTensorIsVirtual) != 0,
                       .is_by_value = object.one<char>(attribute::kTensorIsByValue) != 0};
    const auto dimensions = object.all<std::int64_t>(attribute::kTensorDimensions);
    const auto strides = object.all<std::int64_t>(attribute::kTensorStrides);
    std::copy(dimensions.begin(), dimensions.end(), tensor.dimensions.begin());
    std::copy(strides.begin(), strides.end(), tensor.strides.begin());
    return tensor;
  }

  static CudnnStep step_of(const Object& o) {
    CudnnStep step;
    const auto tensor = [&](int of) { return tensor_of(o.object(of)); };
    if (o.kind == cudnn_object::kPointwiseOperation) {
      const Object& description = o.object(attribute::kPointwiseDescription);
      step.mode = description.one<CudnnPointwise>(attribute::kPointwiseMode);
      step.axis = description.one<std::int64_t>(attribute::kPointwiseAxis, -1);
      step.x = tensor(attribute::kPointwiseX);
      if (o.has(attribute::kPointwiseB)) step.b = tensor(attribute::kPointwiseB);
      if (o.has(attribute::kPointwiseT)) step.t = tensor(attribute::kPointwiseT);
      step.y = tensor(attribute::kPointwiseY);
    } else if (o.kind == cudnn_object::kMatmulOperation) {
      step.kind = CudnnStepKind::multiply;
      step.x = tensor(attribute::kMatmulA);
      step.b = tensor(attribute::kMatmulB);
      step.y = tensor(attribute::kMatmulC);
    } else if (o.kind == cudnn_object::kReductionOperation) {
      step.kind = CudnnStepKind::reduce;
      const Object& description = o.object(attribute::kReductionDescription);
      step.reduction = description.one<CudnnReduction>(attribute::kReductionOperator);
      step.x = tensor(attribute::kReductionX);
      step.y = tensor(attribute::kReductionY);
    } else {
      step.kind = CudnnStepKind::reshape;
      step.x = tensor(attribute::kReshapeX);
      step.y = tensor(attribute::kReshapeY);
    }
    return step;
  }

  int finish_kind(Object& object) {
    switch (object.kind) {
      case cudnn_object::kTensor:
        return finish_tensor(object);
      case cudnn_object::kPointwiseOperation:
      case cudnn_object::kMatmulOperation:
      case cudnn_object::kReductionOperation:
      case cudnn_object::kReshapeOperation: {
        const std::string fault = step_of(object).fault();
        return fault.empty() ? kCudnnSuccess : refuse(kBadParameter, fault);
      }
      case cudnn_object::kGraph:
        return finish_graph(object);
      case cudnn_object::kHeuristics:
        object.steps = object.object(attribute::kHeuristicsGraph).steps;
        return has_target(object, attribute::kHeuristicsDevice,
                          object.object(attribute::kHeuristicsGraph).has(attribute::kGraphHandle));
      case cudnn_object::kPlan:
        return finish_plan(object);
      default:
        return kCudnnSuccess;
    }
  }

  int finish_tensor(const Object& object) {
    const CudnnTensor tensor = tensor_of(object);
    const auto positive = [](std::int64_t n) { return n > 0; };
    const bool good = std::all_of(tensor.dimensions.begin(), tensor.dimensions.end(), positive) &&
                      std::all_of(tensor.strides.begin(), tensor.strides.end(), positive) &&
                      !(tensor.is_virtual && tensor.is_by_value);
    if (!good) return refuse(kBadParameter, "a tensor without shape, or that is virtual and a number");
    return kCudnnSuccess;
  }

  int finish_graph(Object& graph) {
    CudnnSteps steps;
    for (void* const operation : graph.all<void*>(attribute::kGraphOperations))
      steps.push_back(step_of(*static_cast<Object*>(operation)));
    if (const std::string fault = order_fault(steps); !fault.empty()) return refuse(kBadParameter, fault);
    graph.steps = std::make_shared<const CudnnSteps>(std::move(steps));
    return kCudnnSuccess;
  }

  int finish_plan(Object& plan) {
    const Object& config = plan.object(attribute::kPlanConfig);
    plan.steps = config.steps;
    plan.engine = config.engine;
    if (plan.engine < options_.unplannable)
      return refuse(kUnsupportedGraph, "engine " + std::to_string(plan.engine) + " does not know the graph");
    return has_target(plan, attribute::kPlanDevice, plan.has(attribute::kPlanHandle));
  }

  /// Exactly one of a handle and a device says what it is for.
  int has_target(const Object& object, int device, bool has_handle) {
    if (object.has(device) != has_handle) return kCudnnSuccess;
    return refuse(kBadParameter, "neither a handle nor a device, or both");
  }

  int get_configs(const Object& heuristics, std::int64_t most, std::int64_t* count, Object** configs) {
    *count = configs == nullptr ? options_.engines : std::min<std::int64_t>(most, options_.engines);
    if (configs == nullptr) return kCudnnSuccess;
    for (int e = 0; e < static_cast<int>(*count); ++e) {
      Object* const config = configs[e];
      if (!objects_.contains(config) || config->kind != cudnn_object::kEngineConfig)
        return refuse(kBadParameter, "engine configurations are put into something else");
      config->steps = heuristics.steps;
      config->engine = e;
      config->finished = true;
    }
    return kCudnnSuccess;
  }

  /// A graph that turns scores around keeps all of them.
  [[nodiscard]] std::size_t workspace_of(const CudnnSteps& steps) const {
    std::int64_t scores = 0;
    for (const CudnnStep& step : steps) {
      if (step.kind == CudnnStepKind::reshape) scores = std::max(scores, step.y.count());
    }
    return options_.workspace + 2 * static_cast<std::size_t>(scores);
  }

  int enqueue(CUstream_st* stream, const Object& plan, const std::map<std::int64_t, void*>& memory,
              void* workspace) {
    const auto steps = plan.steps;
    std::map<std::int64_t, float> numbers;
    const auto outer = outer_tensors(*steps);
    if (outer.size() != memory.size()) return refuse(kBadParameter, "arguments that the graph does not have");
    for (const auto& [id, tensor] : outer) {
      const auto found = memory.find(id);
      if (found == memory.end() || found->second == nullptr)
        return refuse(kBadParameter, "argument " + std::to_string(id) + " is missing");
      if (tensor.is_by_value) {
        std::memcpy(&numbers[id], found->second, sizeof(float));
      } else if (reinterpret_cast<std::uintptr_t>(found->second) % tensor.alignment != 0) {
        return refuse(kMisaligned, "argument " + std::to_string(id) + " is not aligned");
      }
    }
    KernelAccess access = access_of(*steps, memory);
    if (const std::size_t bytes = workspace_of(*steps); bytes > 0) {
      if (workspace == nullptr) return refuse(kBadParameter, "no workspace");
      access.writes.emplace_back(static_cast<const std::byte*>(workspace), bytes);
    }
    ++books_->executions;
    return queue_(stream, access, [steps, memory, numbers] { run_steps(*steps, memory, numbers); });
  }

  HostQueue queue_;
  HostCudnnOptions options_;
  std::shared_ptr<HostCudnnBooks> books_;
  std::set<Handle*> handles_;
  std::set<Object*> objects_;
  std::string last_error_;
};

}  // namespace

CudnnTable host_cudnn(const HostQueue& queue, const HostCudnnOptions& options,
                      const std::shared_ptr<HostCudnnBooks>& books) {
  const auto all = std::make_shared<Cudnn>(queue, options, books);
  CudnnTable table;
  table.version = [version = options.version] { return version; };
  table.error_text = [](int status) {
    if (status / 1000 == 2) return "CUDNN_STATUS_BAD_PARAM";
    return status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_EXECUTION_FAILED";
  };
  table.last_error = [all](char* message, std::size_t size) {
    std::strncpy(message, all->last_error().c_str(), size);
  };
  table.create = [all](cudnnContext** handle) { return all->create_handle(handle); };
  table.destroy = [all](cudnnContext* handle) { return all->destroy_handle(handle); };
  table.set_stream = [all](cudnnContext* handle, CUstream_st* stream) {
    return all->set_stream(handle, stream);
  };
  table.object_create = [all](int kind, void** object) { return all->create(kind, object); };
  table.object_destroy = [all](void* object) { return all->destroy(object); };
  table.object_set = [all](void* object, int of, int type, std::int64_t count, const void* values) {
    return all->set(object, of, {type, count, values});
  };
  table.object_get = [all](void* object, int of, int, std::int64_t most, std::int64_t* count, void* values) {
    return all->get(object, of, {most, count, values});
  };
  table.object_finish = [all](void* object) { return all->finish(object); };
  table.execute = [all](cudnnContext* handle, void* plan, void* arguments) {
    return all->execute(handle, plan, arguments);
  };
  return table;
}

}  // namespace ppsim::test

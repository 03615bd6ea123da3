#include "ppsim/planner/costs/costs.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "decimal.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/workload/validated.hpp"

namespace ppsim::planner {
namespace {

constexpr double kLongestCost = 1e18;  // nanoseconds

struct UnitValues {
  std::optional<double> F, B, I, W, R, FB, c, A;
};

std::optional<double>* unit_field(UnitValues& values, std::string_view key) {
  struct Field {
    std::string_view name;
    std::optional<double> UnitValues::*member;
  };
  static constexpr std::array<Field, 8> kFields = {{{"F", &UnitValues::F},
                                                    {"B", &UnitValues::B},
                                                    {"I", &UnitValues::I},
                                                    {"W", &UnitValues::W},
                                                    {"R", &UnitValues::R},
                                                    {"FB", &UnitValues::FB},
                                                    {"c", &UnitValues::c},
                                                    {"A", &UnitValues::A}}};
  for (const Field& field : kFields) {
    if (field.name == key) return &(values.*field.member);
  }
  return nullptr;
}

/// True where `own` names what `other` names, or part of it.
bool is_part(std::int32_t own, std::int32_t other) { return other < 0 || own == other; }

bool is_within(const CostClass& own, const CostClass& other) {
  return own.kind == other.kind && is_part(own.subject, other.subject) && is_part(own.peer, other.peer) &&
         is_part(own.slice, other.slice);
}

bool is_within(const SizeClass& own, const SizeClass& other) {
  return own.kind == other.kind && own.op == other.op && is_part(own.subject, other.subject) &&
         is_part(own.peer, other.peer) && is_part(own.slice, other.slice);
}

/// Table: CostTable or SizeTable.
template <class Table>
Table overlaid_table(const Table& base, const Table& over) {
  Table result = over;
  for (const auto& [key, value] : base.entries()) {
    const auto covers = [&key = key](const auto& entry) { return is_within(key, entry.first); };
    if (std::ranges::none_of(over.entries(), covers)) result.set(key, value);
  }
  return result;
}

/// Settings that only a model has.
void keep_model(CostBinding& binding, const CostBinding& of_model) {
  binding.layout = of_model.layout;
  binding.recompute = of_model.recompute;
  binding.memory_limit = of_model.memory_limit;
  binding.tokens_per_step = of_model.tokens_per_step;
  binding.model_flops_per_step = of_model.model_flops_per_step;
  binding.peak_flops = of_model.peak_flops;
}

/// Tokens and throughput are those of the batch: a schedule for another one would make them nonsense.
Expected<void> check_batch(const Parallelism& parallelism, const Pipeline& pipeline) {
  if (batch_microbatches(pipeline) == parallelism.microbatches()) return {};
  return make_error(ErrorCode::bad_argument, "the schedule's microbatches must be those of the batch",
                    {.found = std::to_string(batch_microbatches(pipeline)),
                     .expected = concatenated(parallelism.microbatches(), ", global batch ",
                                              parallelism.global_batch_size, " / (dp ", parallelism.data,
                                              " x microbatch size ", parallelism.microbatch_size, ')')});
}

Expected<CostBinding> bind_units(const UnitSource& units, const Pipeline& pipeline) {
  CostBinding binding;
  binding.has_sizes = units.activation > 0;
  const CostTable costs = unit_cost_table(units.costs);
  if (!units.tokens) {
    binding.tables.costs = costs;
    if (binding.has_sizes) binding.tables.sizes = activation_size_table(units.activation);
    return binding;
  }
  PPSIM_ASSIGN_OR_RETURN(
      auto lengths,
      slice_lengths(*units.tokens, {pipeline.ranks(), pipeline.microbatches(), pipeline.slices()}));
  binding.tables.costs = sliced_costs(costs, pipeline, *units.tokens, lengths);
  if (binding.has_sizes) binding.tables.sizes = sliced_activations(units.activation, pipeline, lengths);
  binding.slice_lengths = std::move(lengths);
  return binding;
}

CostBinding bind_tables(Tables tables) {
  CostBinding binding;
  binding.has_sizes = !tables.sizes.entries().empty();
  binding.tables = std::move(tables);
  return binding;
}

Expected<CostBinding> bind_workload(const Workload& work, const Pipeline& pipeline) {
  PPSIM_RETURN_IF_ERROR(check_batch(work.parallelism, pipeline));
  PPSIM_ASSIGN_OR_RETURN(auto costs, analytic_costs(work, pipeline));
  CostBinding binding;
  binding.tables = std::move(costs.tables);
  binding.has_sizes = true;
  binding.notes = {workload::summary(work), workload::not_modelled(work), workload::known_error(work)};
  if (!work.calibration.empty()) binding.notes->calibration = calibration_hash(work.calibration);
  binding.layout = std::move(costs.layout);
  if (work.whole_step) binding.ends = std::move(costs.ends);
  binding.recompute = work.parallelism.recompute;
  binding.memory_limit = costs.memory_limit;
  binding.tokens_per_step = costs.tokens_per_step;
  binding.model_flops_per_step = costs.model_flops_per_step;
  binding.peak_flops = costs.peak_flops;
  return binding;
}

}  // namespace

Expected<UnitSource> parse_unit_costs(std::string_view text) {
  UnitValues values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::string_view item = text.substr(begin, text.find(',', begin) - begin);
    begin += item.size() + 1;
    const std::size_t equals = item.find('=');
    std::optional<double>* field = unit_field(values, item.substr(0, equals));
    if (field == nullptr || equals == std::string_view::npos) {
      return make_error(
          ErrorCode::bad_argument, "unknown unit cost",
          {.found = std::string(item), .expected = "key=value with one of F, B, I, W, R, FB, c, A"});
    }
    if (field->has_value()) {
      return make_error(ErrorCode::bad_argument, "a unit cost is given twice",
                        {.found = std::string(item), .expected = "each key once"});
    }
    *field = parse_decimal(std::string(item.substr(equals + 1)));
    const bool bytes = item.front() == 'A';
    if (!*field) {
      return make_error(ErrorCode::bad_argument, "a unit cost is not a number",
                        {.found = std::string(item),
                         .expected = bytes ? "A=1e9, in bytes" : "F=1 or F=0.25, in milliseconds"});
    }
    if (**field < 0 || **field > (bytes ? 1e15 : kLargestUnit)) {
      return make_error(ErrorCode::bad_argument, "a unit cost is out of range",
                        {.found = std::string(item), .expected = "a number from 0 to 1e9 (A: 1e15)"});
    }
    if (bytes && std::floor(**field) != **field) {
      return make_error(ErrorCode::bad_argument, "a unit cost is not a whole number of bytes",
                        {.found = std::string(item), .expected = "A=1e9, in bytes"});
    }
  }
  UnitSource source;
  UnitCosts& costs = source.costs;
  costs.F = values.F.value_or(1);
  const double half = values.B.value_or(2) / 2;
  costs.I = values.I.value_or(values.W && values.B ? std::max(0.0, *values.B - *values.W) : half);
  costs.W = values.W.value_or(values.I && values.B ? std::max(0.0, *values.B - *values.I) : half);
  costs.R = values.R.value_or(1);
  costs.B = values.B.value_or(costs.I + costs.W);
  costs.FB = values.FB.value_or(costs.F + costs.B);
  costs.c = values.c.value_or(0);
  source.activation = static_cast<Bytes>(values.A.value_or(0));
  return source;
}

Expected<Bytes> parse_size(std::string_view text) {
  const std::size_t unit_at = text.find_first_not_of("0123456789.");
  const std::string_view unit =
      unit_at == std::string_view::npos ? std::string_view("B") : text.substr(unit_at);
  const auto value = parse_decimal(std::string(text.substr(0, unit_at)));
  constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{{"B", 1},
                                                                          {"kB", 1e3},
                                                                          {"MB", 1e6},
                                                                          {"GB", 1e9},
                                                                          {"TB", 1e12},
                                                                          {"KiB", 1024.0},
                                                                          {"MiB", 1048576.0},
                                                                          {"GiB", 1073741824.0},
                                                                          {"TiB", 1099511627776.0}}};
  for (const auto& [name, factor] : kUnits) {
    if (name != unit || !value) continue;
    if (*value * factor < 9e18) return std::llround(*value * factor);  // 2.01 * 1e9 is below 2010000000
    return make_error(ErrorCode::bad_argument, "the size is too large",
                      {.found = std::string(text), .expected = "less than 9e18 bytes"});
  }
  return make_error(
      ErrorCode::bad_argument, "not a size",
      {.found = std::string(text), .expected = "a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"});
}

Expected<CostBinding> bind_cost_source(const CostSource& source, const Pipeline& pipeline) {
  if (const auto* units = std::get_if<UnitSource>(&source)) return bind_units(*units, pipeline);
  if (const auto* tables = std::get_if<Tables>(&source)) return bind_tables(*tables);
  if (const auto* model = std::get_if<CostModel>(&source)) return (*model)(pipeline).map(bind_tables);
  return bind_workload(std::get<Workload>(source), pipeline);
}

Expected<CostBinding> bind_cost_sources(std::span<const CostSource> sources, const Pipeline& pipeline) {
  if (sources.empty()) return make_error(ErrorCode::bad_argument, "there are no costs");
  auto result = bind_cost_source(sources.front(), pipeline);
  for (const CostSource& source : sources.subspan(1)) {
    if (!result) return result;
    auto over = bind_cost_source(source, pipeline);
    if (!over) return over;
    over->tables = overlaid(result->tables, over->tables);
    over->has_sizes = over->has_sizes || result->has_sizes;
    if (!std::holds_alternative<Workload>(source)) keep_model(*over, *result);
    result = std::move(over);
  }
  return result;
}

Tables overlaid(const Tables& base, const Tables& over) {
  return {overlaid_table(base.costs, over.costs), overlaid_table(base.sizes, over.sizes)};
}

Expected<CostTable> scaled_costs(const CostTable& costs, double factor) {
  if (!std::isfinite(factor) || factor <= 0)
    return make_error(ErrorCode::bad_argument, "costs are scaled by a number above 0");
  CostTable result;
  for (const auto& [key, duration] : costs.entries()) {
    const double scaled = std::round(static_cast<double>(duration) * factor);
    if (scaled > kLongestCost) {
      return make_error(ErrorCode::bad_argument, "scaled costs are above 10^18 ns",
                        {.found = concatenated(key, " of ", duration, " ns, scaled by ", factor),
                         .expected = "at most 10^18 ns"});
    }
    result.set(key, static_cast<Nanoseconds>(scaled));
  }
  return result;
}

}  // namespace ppsim::planner

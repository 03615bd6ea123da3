#include "ppsim/core/ir/tables.hpp"

#include <array>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "table_lookup.hpp"

namespace ppsim {
namespace {

Nanoseconds to_nanoseconds(double units) {
  PPSIM_CHECK(units >= 0, "a unit cost is negative");
  return checked_round(units * static_cast<double>(kUnitTime));
}

void print_field(std::ostream& out, const char* name, std::int32_t value) {
  if (value >= 0) out << ' ' << name << ' ' << value;
}

constexpr std::array<std::string_view, kTensorKindCount> kTensorKindNames = {
    "parameters",        "optimizer_state", "gradients",        "gathered_parameters", "boundary_input",
    "boundary_output",   "saved_for_input", "saved_for_weight", "lent_activations",    "incoming_gradient",
    "outgoing_gradient", "inner_gradients", "kv_gradient",      "workspace",           "partial_gradients"};

}  // namespace

std::ostream& operator<<(std::ostream& out, const CostClass& cost_class) {
  out << info(cost_class.kind).text;
  print_field(out, "subject", cost_class.subject);
  print_field(out, "peer", cost_class.peer);
  print_field(out, "slice", cost_class.slice);
  return out;
}

void CostTable::set(CostClass key, Nanoseconds duration) {
  PPSIM_CHECK(duration >= 0, "durations are not negative");
  entries_[key] = duration;
}

Nanoseconds CostTable::operator()(const CostClass& key) const { return look_up(entries_, key).value_or(0); }

CostTable unit_cost_table(const UnitCosts& costs) {
  CostTable table;
  table.set({OpKind::forward}, to_nanoseconds(costs.F));
  table.set({OpKind::backward}, to_nanoseconds(costs.B));
  table.set({OpKind::backward_input}, to_nanoseconds(costs.I));
  table.set({OpKind::backward_weight}, to_nanoseconds(costs.W));
  table.set({OpKind::recompute}, to_nanoseconds(costs.R));
  table.set({OpKind::overlap}, to_nanoseconds(costs.FB));
  for (const OpKind send : {OpKind::send_forward, OpKind::send_backward, OpKind::send_activation}) {
    table.set({send}, to_nanoseconds(costs.c));
  }
  return table;
}

CostClass cost_class_of(const Action& action) {
  return {action.kind, action.subject, action.peer, action.slice};
}

CostClass cost_class_of(std::span<const Action> actions, InstructionForm form) {
  if (form != InstructionForm::overlap) return cost_class_of(actions.front());
  return {OpKind::overlap, actions[0].subject, actions[1].subject, actions[0].slice};
}

std::string_view tensor_kind_name(TensorKind kind) {
  return kTensorKindNames[static_cast<std::size_t>(kind)];
}

std::optional<TensorKind> tensor_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTensorKindNames.size(); ++i) {
    if (kTensorKindNames[i] == name) return static_cast<TensorKind>(i);
  }
  return std::nullopt;
}

Subject subject_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::parameters:
    case TensorKind::optimizer_state:
    case TensorKind::gradients:
    case TensorKind::partial_gradients:
      return Subject::block;
    case TensorKind::gathered_parameters:
    case TensorKind::boundary_input:
    case TensorKind::boundary_output:
    case TensorKind::saved_for_input:
    case TensorKind::saved_for_weight:
    case TensorKind::lent_activations:
    case TensorKind::incoming_gradient:
    case TensorKind::outgoing_gradient:
    case TensorKind::inner_gradients:
    case TensorKind::kv_gradient:
    case TensorKind::workspace:
      return Subject::stage;
  }
  return Subject::stage;
}

std::ostream& operator<<(std::ostream& out, const SizeClass& size_class) {
  out << tensor_kind_name(size_class.kind);
  print_field(out, "subject", size_class.subject);
  print_field(out, "peer", size_class.peer);
  print_field(out, "slice", size_class.slice);
  if (size_class.kind == TensorKind::workspace) out << " of " << info(size_class.op).text;
  return out;
}

void SizeTable::set(SizeClass key, Bytes size) {
  PPSIM_CHECK(size >= 0, "sizes are not negative");
  entries_[key] = size;
}

Bytes SizeTable::operator()(const SizeClass& key) const {
  const std::optional<Bytes> own = look_up(entries_, key);
  if (own || key.kind != TensorKind::partial_gradients) return own.value_or(0);
  SizeClass summed = key;
  summed.kind = TensorKind::gradients;
  return look_up(entries_, summed).value_or(0);
}

SizeTable activation_size_table(Bytes activation) {
  SizeTable table;
  table.set({TensorKind::saved_for_weight}, activation);
  table.set({TensorKind::lent_activations}, activation);
  return table;
}

}  // namespace ppsim

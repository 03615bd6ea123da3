#include "ppsim/core/ir/tables.hpp"

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

std::ostream& operator<<(std::ostream& out, const SizeClass& size_class) {
  out << info(size_class.kind).name;
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

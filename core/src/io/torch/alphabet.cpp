#include "alphabet.hpp"

namespace ppsim {
namespace {

std::optional<std::string_view> backward_text(CsvDialect dialect) {
  switch (dialect) {
    case CsvDialect::torch:
    case CsvDialect::torch_2_15:
      return "B";
    case CsvDialect::legacy:
      return "BW";
    case CsvDialect::zero_bubble:
      return std::nullopt;
  }
  return std::nullopt;
}

bool is_of_schedule(OpKind kind) {
  return kind == OpKind::forward || gives_input_gradient(kind) || gives_weight_gradient(kind);
}

template <CsvDialect dialect>
std::optional<OpKind> kind_of(std::string_view text) {
  for (const OpInfo& row : kOpTable) {
    if (torch_text(row.kind, dialect) == text) return row.kind;
  }
  return std::nullopt;
}

template <CsvDialect dialect>
std::optional<OpKind> compute_kind_of(std::string_view text) {
  const std::optional<OpKind> kind = kind_of<dialect>(text);
  return kind && is_of_schedule(*kind) ? kind : std::nullopt;
}

}  // namespace

std::optional<std::string_view> torch_text(OpKind kind, CsvDialect dialect) {
  switch (kind) {
    case OpKind::backward:
      return backward_text(dialect);
    case OpKind::backward_input:
      return dialect == CsvDialect::torch || dialect == CsvDialect::torch_2_15 ? "I" : "B";
    case OpKind::forward:
    case OpKind::backward_weight:
    case OpKind::send_forward:
    case OpKind::recv_forward:
    case OpKind::send_backward:
    case OpKind::recv_backward:
    case OpKind::unshard:
    case OpKind::reshard:
    case OpKind::reduce_grad:
      return info(kind).text;
    case OpKind::recompute:
    case OpKind::overlap:
    case OpKind::send_activation:
    case OpKind::recv_activation:
    case OpKind::collective:
    case OpKind::optimizer:
    case OpKind::offload:
    case OpKind::reload:
    case OpKind::load:
      return std::nullopt;
  }
  return std::nullopt;
}

Alphabet compute_alphabet(CsvDialect dialect) {
  switch (dialect) {
    case CsvDialect::torch:
    case CsvDialect::torch_2_15:
      return {compute_kind_of<CsvDialect::torch>, "F, I, W or B of a stage and a microbatch, such as 2F0"};
    case CsvDialect::legacy:
      return {compute_kind_of<CsvDialect::legacy>, "F, B, W or BW of a stage and a microbatch, such as 2F0"};
    case CsvDialect::zero_bubble:
      return {compute_kind_of<CsvDialect::zero_bubble>, "F, B or W of a stage and a microbatch, such as 2F0"};
  }
  return kNativeAlphabet;
}

Alphabet communication_alphabet(CsvDialect dialect) {
  constexpr const char* kExpected = "an action of PyTorch, such as 2F0, 0SEND_F3 or 1UNSHARD";
  switch (dialect) {
    case CsvDialect::torch:
    case CsvDialect::torch_2_15:
      return {kind_of<CsvDialect::torch>, kExpected};
    case CsvDialect::legacy:
      return {kind_of<CsvDialect::legacy>, kExpected};
    case CsvDialect::zero_bubble:
      return {kind_of<CsvDialect::zero_bubble>, kExpected};
  }
  return kNativeAlphabet;
}

}  // namespace ppsim

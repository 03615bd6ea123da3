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
  return kind && is_pass(*kind) ? kind : std::nullopt;
}

}  // namespace

std::optional<std::string_view> torch_text(OpKind kind, CsvDialect dialect) {
  const OpInfo& row = info(kind);
  if (row.alphabet != KindAlphabet::pytorch) return std::nullopt;
  if (kind == OpKind::backward) return backward_text(dialect);
  const bool own_letters = dialect == CsvDialect::torch || dialect == CsvDialect::torch_2_15;
  return kind == OpKind::backward_input && !own_letters ? "B" : row.text;
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

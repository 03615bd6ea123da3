#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim {

/// Kinds of tensors, in the order of tensor_kind.def.
enum class TensorKind : std::uint8_t {
#define PPSIM_TENSOR(name, subject, writes, freed) name,
#include "ppsim/core/ir/tensor_kind.def"
#undef PPSIM_TENSOR
};

enum class Writes : std::uint8_t { once, repeated };
enum class FreedBy : std::uint8_t { last_user, reshard, offload };

/// One row of tensor_kind.def.
struct TensorInfo {
  TensorKind kind;
  std::string_view name;
  Subject subject;
  Writes writes;
  FreedBy freed;
};

inline constexpr auto kTensorTable = std::to_array<TensorInfo>({
#define PPSIM_TENSOR(name, subject, writes, freed) \
  TensorInfo{TensorKind::name, #name, Subject::subject, Writes::writes, FreedBy::freed},
#include "ppsim/core/ir/tensor_kind.def"
#undef PPSIM_TENSOR
});

inline constexpr int kTensorKindCount = static_cast<int>(kTensorTable.size());

[[nodiscard]] constexpr const TensorInfo& info(TensorKind kind) {
  return kTensorTable[static_cast<std::size_t>(kind)];
}

/// The kind with exactly this name.
[[nodiscard]] constexpr std::optional<TensorKind> tensor_kind_from_name(std::string_view name) {
  for (const TensorInfo& row : kTensorTable) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace ppsim

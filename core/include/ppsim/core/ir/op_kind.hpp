#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ppsim {

/// Kinds of actions, in the order of op_kind.def.
enum class OpKind : std::uint8_t {
#define PPSIM_OP(name, text, resource, subject, microbatch, direction, counterpart, peer, occurrence, \
                 alphabet, meaning)                                                                   \
  name,
#include "ppsim/core/ir/op_kind.def"
#undef PPSIM_OP
};

enum class Resource : std::uint8_t { compute, p2p, collective, copy };
enum class Subject : std::uint8_t { stage, block, collective };
enum class MicrobatchUse : std::uint8_t { required, optional, none, update };
enum class Direction : std::uint8_t { local, send, receive };
enum class Peer : std::uint8_t { none, stage, rank };
enum class Occurrence : std::uint8_t { once, repeatable };
enum class KindAlphabet : std::uint8_t { pytorch, ppsim };

/// One row of op_kind.def.
struct OpInfo {
  OpKind kind;
  std::string_view text;
  Resource resource;
  Subject subject;
  MicrobatchUse microbatch;
  Direction direction;
  OpKind counterpart;
  Peer peer;
  Occurrence occurrence;
  KindAlphabet alphabet;
  std::string_view meaning;
};

inline constexpr auto kOpTable = std::to_array<OpInfo>({
#define PPSIM_OP(name, text, resource, subject, microbatch, direction, counterpart, peer, occurrence, \
                 alphabet, meaning)                                                                   \
  OpInfo{OpKind::name,                                                                                \
         text,                                                                                        \
         Resource::resource,                                                                          \
         Subject::subject,                                                                            \
         MicrobatchUse::microbatch,                                                                   \
         Direction::direction,                                                                        \
         OpKind::counterpart,                                                                         \
         Peer::peer,                                                                                  \
         Occurrence::occurrence,                                                                      \
         KindAlphabet::alphabet,                                                                      \
         meaning},
#include "ppsim/core/ir/op_kind.def"
#undef PPSIM_OP
});

inline constexpr std::size_t kOpKindCount = kOpTable.size();

[[nodiscard]] constexpr const OpInfo& info(OpKind kind) { return kOpTable[static_cast<std::size_t>(kind)]; }

/// "stage", "block" or "collective", as in texts and keys.
[[nodiscard]] constexpr const char* subject_name(Subject subject) {
  switch (subject) {
    case Subject::stage:
      return "stage";
    case Subject::block:
      return "block";
    case Subject::collective:
      return "collective";
  }
  return "";
}

/// The kind with exactly this text.
[[nodiscard]] constexpr std::optional<OpKind> op_kind_from_text(std::string_view text) {
  for (const OpInfo& row : kOpTable) {
    if (row.text == text) return row.kind;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr bool is_send(OpKind kind) { return info(kind).direction == Direction::send; }
[[nodiscard]] constexpr bool is_receive(OpKind kind) { return info(kind).direction == Direction::receive; }
[[nodiscard]] constexpr bool is_compute(OpKind kind) { return info(kind).resource == Resource::compute; }
[[nodiscard]] constexpr bool is_transfer(OpKind kind) { return info(kind).resource == Resource::p2p; }
[[nodiscard]] constexpr bool is_collective(OpKind kind) {
  return info(kind).resource == Resource::collective;
}
[[nodiscard]] constexpr bool is_communication(OpKind kind) {
  return is_transfer(kind) || is_collective(kind);
}
/// SEND_A or RECV_A: activations that a rank lends to another, or takes back.
[[nodiscard]] constexpr bool names_peer_rank(OpKind kind) { return info(kind).peer == Peer::rank; }
/// Any other transfer: a tensor of an edge between two stages.
[[nodiscard]] constexpr bool names_peer_stage(OpKind kind) { return info(kind).peer == Peer::stage; }
/// True for every action of one stage and microbatch: those that slices cut along the sequence.
[[nodiscard]] constexpr bool has_slice(OpKind kind) {
  return info(kind).microbatch == MicrobatchUse::required;
}
/// F, B, I, W or R: they compute a stage of the model.
[[nodiscard]] constexpr bool computes_stage(OpKind kind) { return has_slice(kind) && is_compute(kind); }
/// Those that read the weights: W needs activations and gradients alone.
[[nodiscard]] constexpr bool reads_weights(OpKind kind) {
  return computes_stage(kind) && kind != OpKind::backward_weight;
}
/// B or I: they compute the gradient of a stage's input.
[[nodiscard]] constexpr bool gives_input_gradient(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::backward_input;
}
/// B or W: they add to the gradient of the weights.
[[nodiscard]] constexpr bool gives_weight_gradient(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::backward_weight;
}
/// F, B, I or W: a schedule must have them for each stage and microbatch.
[[nodiscard]] constexpr bool is_pass(OpKind kind) {
  return kind == OpKind::forward || gives_input_gradient(kind) || gives_weight_gradient(kind);
}

}  // namespace ppsim

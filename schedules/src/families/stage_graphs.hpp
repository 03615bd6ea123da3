#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

// Stage graphs that are no chain, for schedules with stage s on rank s mod p. Every further edge runs beside
// a path of the chain, so that an order for the chain is one for the graph.

inline constexpr std::array<std::string_view, 4> kGraphs = {"chain", "encoder-decoder", "skip", "index"};
inline constexpr std::array<std::string_view, 2> kEncoderStages = {"1", "2"};

/// The setting `graph`.
inline constexpr SettingInfo kGraphSetting = {
    "graph",
    "what feeds what beside the chain: chain, nothing; encoder-decoder, the encoder's last stage every stage "
    "of the decoder; skip, stage s stage S-1-s; index, stage 0 the last with the number of the microbatch, "
    "which has no gradient",
    "chain", kGraphs};
/// The setting `encoder`.
inline constexpr SettingInfo kEncoderSetting = {
    "encoder", "stages of the encoder of graph=encoder-decoder, in [1, S-1]", "half of them", kEncoderStages};

/// Why there is no such graph of `stages` stages, or nothing. For ScheduleInfo::refusal.
[[nodiscard]] std::string refused_graph(const ScheduleParameters& parameters, int stages);

/// Whether the stages are the chain alone.
[[nodiscard]] bool is_chain(const ScheduleParameters& parameters);

/// p ranks with `chunks` stages each, stage s on rank s mod p, and the edges of the settings.
/// Requires: refused_graph(parameters, p * chunks) is empty.
[[nodiscard]] Expected<Pipeline> make_looped(const ScheduleParameters& parameters, int chunks);

}  // namespace ppsim::schedules

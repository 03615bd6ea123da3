#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim::simulator {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};
/// "#rrggbb".
[[nodiscard]] std::string hex_text(Rgb colour);
/// Towards white by `share` of the way, 0 to 1.
[[nodiscard]] Rgb lighter(Rgb colour, double share);
/// From 0, black, to 1, white.
/// Source: WCAG 2.2, "relative luminance".
[[nodiscard]] double relative_luminance(Rgb colour);
/// Black or white, whichever has more contrast.
[[nodiscard]] Rgb text_colour_on(Rgb background);

/// Colours of the kinds of actions in a timeline.
enum class Palette : std::uint8_t {
  colour_blind,  ///< Okabe and Ito: safe for all common kinds of colour blindness
  pytorch,       ///< as PyTorch draws its schedules: F blue, I teal, W green, B orange
};
[[nodiscard]] std::string_view palette_name(Palette palette);
[[nodiscard]] std::optional<Palette> palette_from_name(std::string_view name);
[[nodiscard]] Rgb colour_of(Palette palette, OpKind kind);
/// Of a later chunk of a rank: lighter, the first one as it is.
[[nodiscard]] Rgb colour_of_chunk(Palette palette, OpKind kind, int chunk, int chunks);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::colour_of;
using simulator::colour_of_chunk;
using simulator::hex_text;
using simulator::lighter;
using simulator::Palette;
using simulator::palette_from_name;
using simulator::palette_name;
using simulator::relative_luminance;
using simulator::Rgb;
using simulator::text_colour_on;
}  // namespace ppsim

#include "ppsim/simulator/writers/palette.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace ppsim::simulator {
namespace {

/// One colour each for F, B, I, W and R, and one that everything else shares.
struct Colours {
  std::array<Rgb, 5> by_kind;
  Rgb other;
};

constexpr std::array kColoured = {OpKind::forward, OpKind::backward, OpKind::backward_input,
                                  OpKind::backward_weight, OpKind::recompute};
constexpr Colours kColourBlind{
    {{{0x56, 0xB4, 0xE9}, {0xE6, 0x9F, 0x00}, {0xD5, 0x5E, 0x00}, {0x00, 0x9E, 0x73}, {0xCC, 0x79, 0xA7}}},
    {0x8C, 0x8C, 0x8C}};
constexpr Colours kPyTorch{
    {{{0x5B, 0x8F, 0xF9}, {0xF6, 0x9A, 0x3C}, {0x2A, 0xB5, 0xB0}, {0x5A, 0xC8, 0x5A}, {0xB0, 0x7A, 0xD8}}},
    {0x8C, 0x8C, 0x8C}};

std::uint8_t towards_white(std::uint8_t value, double share) {
  return static_cast<std::uint8_t>(std::lround(value + (255 - value) * share));
}

/// Where black and white text have the same contrast: sqrt(1.05 * 0.05) - 0.05.
constexpr double kAsDarkAsLight = 0.179;

}  // namespace

double relative_luminance(Rgb colour) {
  const auto linear = [](std::uint8_t value) {
    const double share = value / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

std::string hex_text(Rgb colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", unsigned{colour.red}, unsigned{colour.green},
                unsigned{colour.blue});
  return text.data();
}

Rgb lighter(Rgb colour, double share) {
  return {towards_white(colour.red, share), towards_white(colour.green, share),
          towards_white(colour.blue, share)};
}

Rgb text_colour_on(Rgb background) {
  return relative_luminance(background) > kAsDarkAsLight ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
}

std::string_view palette_name(Palette palette) {
  switch (palette) {
    case Palette::colour_blind:
      return "colour-blind";
    case Palette::pytorch:
      return "pytorch";
  }
  return "";
}

std::optional<Palette> palette_from_name(std::string_view name) {
  for (const Palette palette : {Palette::colour_blind, Palette::pytorch}) {
    if (palette_name(palette) == name) return palette;
  }
  return std::nullopt;
}

Rgb colour_of(Palette palette, OpKind kind) {
  const Colours& colours = palette == Palette::pytorch ? kPyTorch : kColourBlind;
  const auto* coloured = std::ranges::find(kColoured, kind);
  return coloured == kColoured.end()
             ? colours.other
             : colours.by_kind[static_cast<std::size_t>(coloured - kColoured.begin())];
}

Rgb colour_of_chunk(Palette palette, OpKind kind, int chunk, int chunks) {
  const double share = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
  return lighter(colour_of(palette, kind), share);
}

}  // namespace ppsim::simulator

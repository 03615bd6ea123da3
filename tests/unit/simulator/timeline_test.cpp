#include "ppsim/simulator/writers/timeline.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "support/finished_run.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

using test::cost_table;
using test::FinishedRun;
using test::HandProgram;
using enum OpKind;

FinishedRun drawn_step() {
  return {test::two_rank_step(), cost_table({{forward, -1, 10}, {backward, -1, 20}})};
}

std::string svg(const FinishedRun& run, const SvgOptions& options = {}) {
  std::ostringstream out;
  write_svg(out, run.program(), run.trace(), options);
  return out.str();
}

std::string text(const FinishedRun& run, const TextTimelineOptions& options) {
  std::ostringstream out;
  write_text_timeline(out, run.program(), run.trace(), options);
  return out.str();
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(TextTimeline, OneLinePerRankWithinItsWidth) {
  // Rank 0: F 0-10, B 40-60; rank 1: F 10-20, B 20-40. 12 columns of 5 ns.
  EXPECT_EQ(text(drawn_step(), {.width = 19}),
            "rank 0 F0      B0██\n"
            "rank 1   F0B0██    \n"
            "       0      60 ns\n"
            "       F░ forward\n"
            "       B█ backward\n");
}

TEST(TextTimeline, LabelsThatDoNotFitAreLeftOut) {
  // Never fewer than ten columns, here of 6 ns; F of rank 1 has most of one of them and a minority of two.
  EXPECT_EQ(text(drawn_step(), {.width = 5}),
            "rank 0 F0     B0█\n"
            "rank 1   ░B0██   \n"
            "       0    60 ns\n"
            "       F░ forward\n"
            "       B█\n"
            "       backward\n");
}

TEST(TextTimeline, APartOfTheStepAndOfTheRanks) {
  // B of rank 1 from 20 to 40 ns, in 10 columns of 2 ns.
  EXPECT_EQ(text(drawn_step(), {.width = 17, .from = 20, .to = 40, .first_rank = 1, .ranks = 1}),
            "rank 1 B0████████\n"
            "       20 ns40 ns\n"
            "       B█\n"
            "       backward\n");
}

TEST(TextTimeline, LegendBreaksBetweenWordsAndNamesWhatIsDrawn) {
  const std::string picture = text(drawn_step(), {.width = 60});
  EXPECT_NE(picture.find("\n       F░ forward  B█ backward\n"), std::string::npos) << picture;
  EXPECT_EQ(count(picture, "weights"), 0U);
}

TEST(TextTimeline, ColoursAreEscapesThatEnd) {
  const std::string coloured = text(drawn_step(), {.width = 40, .colour = true});
  EXPECT_EQ(count(coloured, "\033[48;2;"), 6U);  // two of the legend
  EXPECT_EQ(count(coloured, "\033[0m"), 6U);
}

TEST(TextTimeline, StepWithoutTimeIsEmpty) {
  const FinishedRun run(test::two_rank_step(), CostTable());
  EXPECT_EQ(text(run, {.width = 17}), "rank 0           \nrank 1           \n       0        0\n");
}

TEST(SvgTimeline, HasACellPerComputeActionAndNoneForTransfers) {
  const std::string picture = svg(drawn_step());
  EXPECT_EQ(count(picture, "<g><title>"), 4U);
  EXPECT_EQ(count(picture, "SEND"), 0U);
  EXPECT_EQ(count(picture, ">rank 0<"), 1U);
  EXPECT_EQ(count(picture, ">rank 1<"), 1U);
  EXPECT_LT(picture.find(">rank 0<"), picture.find(">rank 1<"));
}

TEST(SvgTimeline, PlacesCellsByTime) {
  // 1080 pixels for 60 ns: B of rank 1 lasts from 20 to 40.
  const std::string picture = svg(drawn_step(), {.width = 1160});
  EXPECT_NE(picture.find("<rect x=\"420\" y=\"37\" width=\"360\""), std::string::npos) << picture;
}

TEST(SvgTimeline, TitleIsEscaped) {
  EXPECT_NE(svg(drawn_step(), {.title = "a<b & c"}).find("a&lt;b &amp; c"), std::string::npos);
}

TEST(SvgTimeline, ControlCharactersAreReplaced) {
  const std::string picture = svg(drawn_step(), {.title = "a\x01"
                                                          "b\x1F"});
  EXPECT_NE(picture.find("a\xEF\xBF\xBD"
                         "b\xEF\xBF\xBD<"),
            std::string::npos)
      << picture;
  EXPECT_EQ(markup_text("a\tb\nc\r"), "a\tb\nc\r");
}

TEST(SvgTimeline, WordsThatAreTooLongAreCut) {
  const std::string fits = svg(drawn_step(), {.title = std::string(150, 'x')});
  EXPECT_NE(fits.find(">" + std::string(150, 'x') + "</text>"), std::string::npos);
  for (const char* letter : {"x", "X", "\xC3\xA4"}) {
    std::string word;
    for (int i = 0; i < 400; ++i) word += letter;
    const std::string picture = svg(drawn_step(), {.title = word});
    EXPECT_NE(picture.find("<title>" + word + "</title>"), std::string::npos);
    EXPECT_EQ(count(picture, word), 1U);
    EXPECT_NE(picture.find(letter + std::string("...</text>")), std::string::npos);
  }
}

TEST(SvgTimeline, PalettesDiffer) {
  EXPECT_NE(svg(drawn_step(), {.palette = Palette::pytorch}),
            svg(drawn_step(), {.palette = Palette::colour_blind}));
  for (const Palette palette : {Palette::colour_blind, Palette::pytorch}) {
    EXPECT_EQ(palette_from_name(palette_name(palette)), palette);
    EXPECT_NE(svg(drawn_step(), {.palette = palette}).find(hex_text(colour_of(palette, backward))),
              std::string::npos);
  }
  EXPECT_EQ(palette_from_name("grey"), std::nullopt);
}

TEST(SvgTimeline, LaterChunksAreLighter) {
  EXPECT_EQ(colour_of_chunk(Palette::colour_blind, forward, 0, 2), colour_of(Palette::colour_blind, forward));
  EXPECT_EQ(lighter({0, 100, 255}, 1), (Rgb{255, 255, 255}));
  const Program program =
      HandProgram{{.ranks = 1, .stages = 2, .microbatches = 1}, {}, {{"0F0", "1F0", "1B0", "0B0"}}}.build();
  const std::string picture = svg({program, cost_table({{forward, -1, 1}, {backward, -1, 2}})});
  EXPECT_NE(picture.find(hex_text(colour_of_chunk(Palette::colour_blind, forward, 1, 2))), std::string::npos);
  EXPECT_NE(picture.find("later chunk"), std::string::npos);
}

TEST(SvgTimeline, OverlappedPairIsDrawnAsHalves) {
  const Program program =
      HandProgram{{.ranks = 1, .stages = 1, .microbatches = 2}, {}, {{"0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"}}}
          .build();
  const std::string picture =
      svg({program, cost_table({{forward, -1, 1}, {backward, -1, 2}, {overlap, -1, 3}})}, {.row_height = 26});
  EXPECT_EQ(count(picture, "height=\"12\""), 2U);
  EXPECT_EQ(count(picture, "height=\"24\""), 2U);
}

/// How much of each channel the narrow cells of a picture take from white, pixels times 255 minus colour.
double darkness(const std::string& picture) {
  double sum = 0;
  const std::string open = "<rect x=\"";
  for (std::size_t at = picture.find(open); at != std::string::npos; at = picture.find(open, at + 1)) {
    const std::string element = picture.substr(at, picture.find("/>", at) - at);
    if (element.find("stroke") != std::string::npos) continue;  // no cell, or a wide one
    const double width = std::stod(element.substr(element.find("width=\"") + 7));
    const std::size_t fill = element.find("fill=\"#") + 7;
    sum += width * (255 - std::stoi(element.substr(fill, 2), nullptr, 16));
  }
  return sum;
}

TEST(SvgTimeline, NarrowCellsAreMixedByTime) {
  std::vector<std::string> row;
  for (int m = 0; m < 400; ++m) row.push_back("0F" + std::to_string(m));
  for (int m = 0; m < 400; ++m) row.push_back("0B" + std::to_string(m));
  const FinishedRun run(HandProgram{{.ranks = 1, .stages = 1, .microbatches = 400}, {}, {row}}.build(),
                        cost_table({{forward, -1, 10}, {backward, -1, 20}}));
  // 320 pixels of 37.5 ns: a third of them are forwards, and the rest is backwards.
  const std::string picture = svg(run, {.width = 400});
  const double forwards = 320.0 / 3 * (255 - colour_of(Palette::colour_blind, forward).red);
  const double backwards = 320.0 * 2 / 3 * (255 - colour_of(Palette::colour_blind, backward).red);
  EXPECT_NEAR(darkness(picture), forwards + backwards, 0.005 * (forwards + backwards));
  EXPECT_LT(picture.size(), 4000U);
}

TEST(SvgTimeline, LegendTakesAsManyLinesAsItNeeds) {
  const auto height = [](const std::string& picture) {
    return std::stod(picture.substr(picture.find("height=\"") + 8));
  };
  const std::string wide = svg(drawn_step(), {.width = 900});
  const std::string narrow = svg(drawn_step(), {.width = 150});
  EXPECT_EQ(count(narrow, "F forward"), 1U);
  EXPECT_EQ(height(narrow), height(wide) + 2 * 18);
}

TEST(SvgTimeline, HasAnAxisOfUnitsAndMemoryWhereAsked) {
  const FinishedRun run(test::two_rank_step(),
                        cost_table({{forward, -1, 1'000'000}, {backward, -1, 2'000'000}}));
  const std::vector<MemoryProfile> memory = {{100, {}, {{{0, 0}, 100}, {{3'000'000, 0}, 0}}}, {}};
  const std::string picture = svg(run, {.font = "Times", .unit_axis = true, .memory = memory});
  EXPECT_EQ(count(picture, " ms</text>"), 0U);
  EXPECT_EQ(count(picture, ">6</text>"), 1U);
  EXPECT_EQ(count(picture, "<path "), 2U);
  EXPECT_EQ(count(picture, "100 B</text>"), 1U);
  EXPECT_EQ(count(picture, "font-family=\"Times\""), 1U);
}

/// Of a text on a background, as WCAG has it; AA asks for 4.5.
double contrast(Rgb text, Rgb background) {
  const double one = relative_luminance(text), other = relative_luminance(background);
  return (std::max(one, other) + 0.05) / (std::min(one, other) + 0.05);
}

TEST(SvgTimeline, TextsAreLegibleOnEveryColour) {
  for (const Palette palette : {Palette::colour_blind, Palette::pytorch}) {
    for (const OpInfo& kind : kOpTable) {
      for (int chunk = 0; chunk < 6; ++chunk) {
        const Rgb colour = colour_of_chunk(palette, kind.kind, chunk, 6);
        EXPECT_GE(contrast(text_colour_on(colour), colour), 4.5) << kind.text << " chunk " << chunk;
      }
    }
  }
}

TEST(SvgTimeline, SeveralRunsHaveOneAxis) {
  const FinishedRun once = drawn_step();
  const FinishedRun twice{test::two_rank_step(), cost_table({{forward, -1, 20}, {backward, -1, 40}})};
  const std::vector<SvgRun> runs = {{"once", once.program(), once.trace()},
                                    {"twice", twice.program(), twice.trace()}};
  std::ostringstream out;
  write_svg(out, runs, {.title = "both", .width = 1200});
  const std::string picture = out.str();
  for (const char* title : {">both<", ">once<", ">twice<"}) EXPECT_EQ(count(picture, title), 1U) << title;
  EXPECT_EQ(count(picture, "B backward"), 1U) << "one legend";
  EXPECT_EQ(count(picture, ">120 ns<"), 1U) << "times below the last run alone";
  // 1120 pixels for 120 ns: F of rank 0 takes 10 ns of the first run and 20 ns of the second.
  EXPECT_NE(picture.find("x=\"60\" y=\"61\" width=\"93.3333\""), std::string::npos) << picture;
  EXPECT_NE(picture.find("width=\"186.667\""), std::string::npos);
}

TEST(PdfTimeline, ObjectsAreWhereItsTableSays) {
  std::ostringstream out;
  const FinishedRun run = drawn_step();
  write_pdf(out, run.program(), run.trace(), {.title = "a (b) \\ \u00fc", .width = 960});
  const std::string pdf = out.str();
  EXPECT_TRUE(pdf.starts_with("%PDF-1.4\n"));
  EXPECT_NE(pdf.find("/MediaBox [0 0 720 "), std::string::npos) << "960 pixels are ten inches";
  EXPECT_NE(pdf.find("(a \\(b\\) \\\\ \xfc) Tj"), std::string::npos) << "a text of Latin 1";
  EXPECT_EQ(count(pdf, "(rank 1) Tj"), 1U);
  const std::size_t table = pdf.find("xref\n0 7\n");
  ASSERT_NE(table, std::string::npos);
  EXPECT_NE(pdf.find("startxref\n" + std::to_string(table) + "\n%%EOF\n"), std::string::npos);
  for (int object = 1; object < 7; ++object) {
    const std::size_t row = table + 9 + 20 * static_cast<std::size_t>(object);
    const std::size_t offset = std::stoul(pdf.substr(row, 10));
    EXPECT_TRUE(pdf.substr(offset).starts_with(std::to_string(object) + " 0 obj\n")) << object;
  }
  EXPECT_TRUE(pdf_has_letters("f\u00fcr 4"));
  EXPECT_FALSE(pdf_has_letters("\u03bb"));
}

}  // namespace
}  // namespace ppsim

#include "figures.hpp"

#include "command_line/validators.hpp"
#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::cli {

Option add_columns_option(Command& command, std::optional<int>& columns, const Option& width) {
  return command
      .add_option("--columns", columns, "width of the picture: 1 or 2 columns of a paper, 3.5 or 7.16 inches")
      .check(whole(1, 2))
      .excludes(width);
}

int column_pixels(int columns) {
  constexpr int kOne = 336, kTwo = 687;  // 3.5 and 7.16 inches, as IEEE and ACM have them
  return columns == 1 ? kOne : kTwo;
}

Expected<void> check_pdf_title(const std::string& title) {
  if (pdf_has_letters(title)) return {};
  return make_error(ErrorCode::bad_argument, "the font of a PDF lacks letters of --title",
                    {.found = title, .expected = "letters of Latin 1, or an SVG"});
}

}  // namespace ppsim::cli

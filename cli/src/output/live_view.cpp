#include "live_view.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>
#include <string_view>

#include "ppsim/simulator/writers/timeline.hpp"

namespace ppsim::cli {
namespace {

enum class Key { left, right, up, down, nearer, farther, whole, quit, none };

constexpr std::array<std::pair<std::string_view, Key>, 17> kKeys = {{{"\033[D", Key::left},
                                                                     {"h", Key::left},
                                                                     {"\033[C", Key::right},
                                                                     {"l", Key::right},
                                                                     {"\033[A", Key::up},
                                                                     {"k", Key::up},
                                                                     {"\033[B", Key::down},
                                                                     {"j", Key::down},
                                                                     {"+", Key::nearer},
                                                                     {"=", Key::nearer},
                                                                     {"-", Key::farther},
                                                                     {"0", Key::whole},
                                                                     {"q", Key::quit},
                                                                     {"Q", Key::quit},
                                                                     {"\x03", Key::quit},
                                                                     {"\x04", Key::quit},
                                                                     {"\033", Key::quit}}};
constexpr std::string_view kHelp = "arrows move, + - zoom, 0 whole step, Q ends";

/// The terminal gives keys as they are pressed, and a screen that vanishes afterwards.
class RawTerminal {
 public:
  RawTerminal() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::cout << "\033[?1049h\033[?25l" << std::flush;
  }
  ~RawTerminal() {
    std::cout << "\033[?25h\033[?1049l" << std::flush;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
};

struct Size {
  int columns = 80, rows = 24;
  friend bool operator==(const Size&, const Size&) = default;
};

Size screen_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {std::max<int>(20, size.ws_col), std::max<int>(6, size.ws_row)};
}

/// The next keys that mean something; nothing after a while in which the terminal may have changed.
Key read_key() {
  constexpr int kWhile_ms = 250;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kWhile_ms) <= 0) return Key::none;
  std::array<char, 8> bytes{};
  const auto size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (size <= 0) return Key::quit;
  const std::string_view text(bytes.data(), as_size(size));
  for (const auto& [keys, key] : kKeys) {
    const bool alone = keys == "\033";  // longer sequences begin with it, too
    if (alone ? text == keys : text.starts_with(keys)) return key;
  }
  return Key::none;
}

/// The part of a run that is on the screen.
class View {
 public:
  View(const Program& program, const TimedTrace& trace, simulator::Palette palette)
      : program_(program), trace_(trace), palette_(palette) {
    for (const Span& span : trace.spans) end_ = std::max(end_, span.end.time);
    to_ = end_;
  }

  /// The screen from its top left on, without a line end behind its last line.
  [[nodiscard]] std::string picture(Size size) {
    rows_ = std::clamp(size.rows - kLinesBelow, 1, program_.pipeline().ranks());
    first_ = std::clamp(first_, 0, program_.pipeline().ranks() - rows_);
    std::ostringstream text;
    simulator::write_text_timeline(text, program_, trace_,
                                   {.width = size.columns,
                                    .colour = true,
                                    .palette = palette_,
                                    .from = from_,
                                    .to = to_,
                                    .first_rank = first_,
                                    .ranks = rows_});
    std::istringstream lines(text.str());
    std::string screen = "\033[H";
    for (std::string line; std::getline(lines, line);) screen += line + "\033[K\n";
    return screen + std::string(kHelp.substr(0, as_size(size.columns) - 1)) + "\033[J";
  }

  void take(Key key) {
    const Nanoseconds span = to_ - from_;
    switch (key) {
      case Key::left:
        place(from_ - span / 4, span);
        break;
      case Key::right:
        place(from_ + span / 4, span);
        break;
      case Key::up:
        --first_;
        break;
      case Key::down:
        ++first_;
        break;
      case Key::nearer:
        place(from_ + span / 4, span - span / 2);
        break;
      case Key::farther:
        place(from_ - span / 2, 2 * span);
        break;
      case Key::whole:
        place(0, end_);
        break;
      case Key::quit:
      case Key::none:
        break;
    }
  }

 private:
  static constexpr int kLinesBelow = 5;  ///< axis, two of the legend, keys, and the line where the cursor is

  void place(Nanoseconds from, Nanoseconds span) {
    span = std::clamp<Nanoseconds>(span, std::min<Nanoseconds>(end_, 100), end_);
    from_ = std::clamp<Nanoseconds>(from, 0, end_ - span);
    to_ = from_ + span;
  }

  const Program& program_;
  const TimedTrace& trace_;
  simulator::Palette palette_;
  Nanoseconds end_ = 0, from_ = 0, to_ = 0;
  int first_ = 0, rows_ = 1;
};

}  // namespace

Expected<void> show_live(const Program& program, const TimedTrace& trace, simulator::Palette palette) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return make_error(ErrorCode::bad_argument, "--live needs a terminal",
                      {.found = "a file or a pipe", .expected = "a terminal, or no --live"});
  }
  const RawTerminal terminal;
  View view(program, trace, palette);
  Size drawn{0, 0};
  for (Key key = Key::whole; key != Key::quit; key = read_key()) {
    const Size size = screen_size();
    if (key == Key::none && size == drawn) continue;
    view.take(key);
    std::cout << view.picture(size) << std::flush;
    drawn = size;
  }
  return {};
}

}  // namespace ppsim::cli

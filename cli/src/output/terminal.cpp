#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "command_line/help.hpp"

namespace ppsim::cli {
namespace {

using Seconds = std::chrono::duration<double>;

/// 0 where it is no terminal, or one that says nothing of itself.
std::size_t columns_of(int file) {
  winsize size{};
  if (::isatty(file) == 0 || ::ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 0;
  return size.ws_col;
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string(term) == "dumb";
}

std::string duration_text(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

/// Characters that a terminal shows of a text: no bytes that continue one, no colours.
std::size_t shown_size(const std::string& text) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++size;
    }
  }
  return size;
}

}  // namespace

std::size_t terminal_columns() { return columns_of(STDOUT_FILENO); }

std::size_t help_width() {
  const std::size_t columns = terminal_columns();
  return columns == 0 ? 80 : std::clamp<std::size_t>(columns, 60, 100);
}

std::string fitted(const std::string& line, std::size_t width) {
  if (width == 0 || shown_size(line) <= width) return line;
  const std::size_t indent = std::min(line.find_first_not_of(' '), width / 2) + 2;
  return wrapped(line, width, indent);
}

Terminal::Gate::Gate(Terminal& terminal, std::ostream& stream, std::size_t columns)
    : terminal_(terminal), stream_(stream), behind_(stream.rdbuf(this)), columns_(columns) {}

Terminal::Gate::~Gate() {
  if (!line_.empty()) put(line_);
  behind_->pubsync();
  stream_.rdbuf(behind_);
}

bool Terminal::Gate::put(const std::string& text) {
  const std::lock_guard lock(terminal_.mutex_);
  terminal_.erase();
  terminal_.line_is_open_ = !text.empty() && text.back() != '\n';
  return behind_->sputn(text.data(), static_cast<std::streamsize>(text.size())) ==
         static_cast<std::streamsize>(text.size());
}

int Terminal::Gate::overflow(int character) {
  if (character == traits_type::eof()) return 0;
  if (character != '\n') {
    line_ += static_cast<char>(character);
    return character;
  }
  const std::string line = fitted(std::exchange(line_, {}), columns_) + '\n';
  return put(line) ? character : traits_type::eof();
}

int Terminal::Gate::sync() {
  // stderr asks for it after every piece of a line.
  if (&stream_ == &std::cerr) return behind_->pubsync();
  const bool written = line_.empty() || put(std::exchange(line_, {}));
  return written && behind_->pubsync() == 0 ? 0 : -1;
}

Terminal::Terminal(bool progress) {
  const std::size_t out = columns_of(STDOUT_FILENO);
  const std::size_t err = columns_of(STDERR_FILENO);
  const bool draws = progress && err > 0 && !is_dumb();
  if (out > 0) out_ = std::make_unique<Gate>(*this, std::cout, out);
  if (err > 0) err_ = std::make_unique<Gate>(*this, std::cerr, err);
  if (draws) thread_ = std::thread([this] { draw_until_over(); });
}

Terminal::~Terminal() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    erase();
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Terminal::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  said_ = text;
}

void Terminal::draw_until_over() {
  constexpr std::chrono::seconds kFirst{2};
  constexpr std::chrono::milliseconds kNext{500};
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, kFirst, [this] { return over_; });
  while (!over_) {
    draw();
    ended_.wait_for(lock, kNext, [this] { return over_; });
  }
}

void Terminal::draw() {
  if (line_is_open_) return;
  const double seconds = Seconds(std::chrono::steady_clock::now() - begin_).count();
  const double share = fraction_;
  std::string text = "ppsim: " + duration_text(seconds);
  if (share > 0 && share < 1) {
    text += ", " + std::to_string(static_cast<int>(100 * share)) + " %, about " +
            duration_text(seconds * (1 - share) / share) + " left";
  }
  if (!said_.empty()) text += ", " + said_;
  text = "\r\033[K" + text;
  drawn_ = ::write(STDERR_FILENO, text.data(), text.size()) > 0;
}

void Terminal::erase() {
  if (!drawn_) return;
  constexpr std::string_view kErase = "\r\033[K";
  drawn_ = ::write(STDERR_FILENO, kErase.data(), kErase.size()) < 0;
}

}  // namespace ppsim::cli

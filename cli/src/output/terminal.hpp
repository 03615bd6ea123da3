#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <thread>

namespace ppsim::cli {

/// Columns of the terminal that stdout is; nothing in a file or a pipe.
[[nodiscard]] std::size_t terminal_columns();
/// Columns for help: those of the terminal, from 60 to 100; 80 elsewhere.
[[nodiscard]] std::size_t help_width();

/// A line of prose in lines of `width` columns, broken between words. Colours take no columns; what has no
/// place to break stays.
[[nodiscard]] std::string fitted(const std::string& line, std::size_t width);

/// A terminal while a command runs. Lines that are too long for it are broken between words; after two
/// seconds a line on stderr says how long the command takes, how much is left where that is known, and what
/// is known so far. It gives way to what is printed. What is no terminal is left alone.
class Terminal {
 public:
  /// `progress` is false where nobody wants to see it, as with --json.
  explicit Terminal(bool progress);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Sets the text after the time in the line. Any thread may call it.
  void say(const std::string& text);
  /// So much of the work is done, 0 to 1.
  void done(double fraction) { fraction_ = fraction; }

 private:
  /// Passes on the lines of a stream.
  class Gate : public std::streambuf {
   public:
    Gate(Terminal& terminal, std::ostream& stream, std::size_t columns);
    ~Gate() override;

   private:
    int overflow(int character) override;
    int sync() override;
    bool put(const std::string& text);

    Terminal& terminal_;
    std::ostream& stream_;
    std::streambuf* behind_;
    std::size_t columns_;
    std::string line_;
  };

  void draw_until_over();
  void draw();
  void erase();

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<double> fraction_ = 0;
  std::mutex mutex_;  ///< of what follows
  std::string said_;
  std::condition_variable ended_;
  bool drawn_ = false, over_ = false;
  bool line_is_open_ = false;  ///< something is printed in the line where the cursor is
  std::unique_ptr<Gate> out_, err_;
  std::thread thread_;
};

}  // namespace ppsim::cli

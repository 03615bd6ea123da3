#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ppsim/core/ir/concatenated.hpp"

namespace ppsim {

/// Collects broken rules, one line each, so that an error reports all of them and not the first.
class Rules {
 public:
  template <class... Parts>
  void broken(const Parts&... parts) {
    if (++count_ > kMaxListed) return;
    lines_.push_back(concatenated(parts...));
  }
  /// Adds what others found later.
  void add(const Rules& more) {
    count_ += more.count_;
    for (const std::string& line : more.lines_) {
      if (lines_.size() < kMaxListed) lines_.push_back(line);
    }
  }
  [[nodiscard]] bool hold() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& line : lines_) text += (text.empty() ? "" : "\n") + line;
    if (count_ > kMaxListed) text += "\nand " + std::to_string(count_ - kMaxListed) + " more";
    return text;
  }

 private:
  static constexpr std::size_t kMaxListed = 50;
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

}  // namespace ppsim

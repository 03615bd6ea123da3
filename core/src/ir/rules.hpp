#pragma once

#include <cstddef>
#include <sstream>
#include <string>

namespace ppsim {

/// Collects broken rules, one line each, so that an error reports all of them and not the first.
class Rules {
 public:
  template <class... Parts>
  void broken(const Parts&... parts) {
    if (++count_ > kMaxListed) return;
    if (count_ > 1) text_ << '\n';
    (text_ << ... << parts);
  }
  [[nodiscard]] bool hold() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    if (count_ <= kMaxListed) return text_.str();
    return text_.str() + "\nand " + std::to_string(count_ - kMaxListed) + " more";
  }

 private:
  static constexpr std::size_t kMaxListed = 50;
  std::ostringstream text_;
  std::size_t count_ = 0;
};

}  // namespace ppsim

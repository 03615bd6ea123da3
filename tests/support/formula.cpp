#include "support/formula.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace ppsim::test {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::map<std::string, double>& names) : text_(text), names_(names) {}

  double whole() {
    const double value = sum();
    if (skip_blanks(); at_ < text_.size()) fail();
    return value;
  }

 private:
  [[noreturn]] void fail() const {
    throw std::invalid_argument("\"" + std::string(text_) + "\", column " + std::to_string(at_ + 1));
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void expect(std::string_view word) {
    if (!take(word)) fail();
  }

  double sum() {
    double value = product();
    while (true) {
      if (take("+")) {
        value += product();
      } else if (take("-")) {
        value -= product();
      } else {
        return value;
      }
    }
  }

  double product() {
    double value = factor();
    while (true) {
      if (take("*")) {
        value *= factor();
      } else if (take("/")) {
        value /= factor();
      } else if (take("mod ")) {
        value = std::fmod(value, factor());
      } else if (begins_factor()) {
        value *= factor();
      } else {
        return value;
      }
    }
  }

  bool begins_factor() {
    skip_blanks();
    return at_ < text_.size() &&
           (text_[at_] == '(' || std::isalnum(static_cast<unsigned char>(text_[at_])) != 0);
  }

  double factor() {
    if (take("(")) {
      const double value = sum();
      expect(")");
      return value;
    }
    if (take("min(")) return of_two([](double a, double b) { return std::min(a, b); });
    if (take("max(")) return of_two([](double a, double b) { return std::max(a, b); });
    if (take("floor(")) return std::floor(last_of_one());
    if (take("ceil(")) return std::ceil(last_of_one());
    skip_blanks();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    return name();
  }

  double last_of_one() {
    const double value = sum();
    expect(")");
    return value;
  }

  template <class Function>
  double of_two(const Function& function) {
    const double a = sum();
    expect(",");
    return function(a, last_of_one());
  }

  double number() {
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    const double value = std::stod(std::string(text_.substr(at_, end - at_)));
    at_ = end;
    return value;
  }

  double name() {
    auto longest = names_.end();
    for (auto entry = names_.begin(); entry != names_.end(); ++entry) {
      const std::string& name = entry->first;
      if (text_.substr(at_, name.size()) != name) continue;
      if (longest == names_.end() || name.size() > longest->first.size()) longest = entry;
    }
    if (longest == names_.end()) fail();
    at_ += longest->first.size();
    return longest->second;
  }

  std::string_view text_;
  const std::map<std::string, double>& names_;
  std::size_t at_ = 0;
};

}  // namespace

double formula_value(std::string_view text, const std::map<std::string, double>& names) {
  return Reader(text, names).whole();
}

}  // namespace ppsim::test

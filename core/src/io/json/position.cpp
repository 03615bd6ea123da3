#include "position.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ppsim {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// Walks a text that is known to be valid JSON, without recursion.
class JsonWalker {
 public:
  explicit JsonWalker(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (at == 0 && text.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    skip_blanks();
  }

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] char here() const { return at_end() ? '\0' : text_[at_]; }

  void step() {
    ++at_;
    skip_blanks();
  }

  /// Skips the string that starts here. Returns: it, with its quotes.
  std::string_view token() {
    const std::size_t begin = at_++;
    for (at_ = find_quote(); !at_end() && is_escaped(begin); at_ = find_quote()) ++at_;
    const std::string_view token = text_.substr(begin, at_ + 1 - begin);
    step();
    return token;
  }

  /// Reads the string that starts here.
  std::string string() { return decoded(token()); }
  [[nodiscard]] static std::string decoded(std::string_view token) {
    return nlohmann::json::parse(token, nullptr, false).get<std::string>();
  }

  void skip_value() {
    std::size_t depth = 0;
    do {
      switch (here()) {
        case '"':
          token();
          break;
        case '{':
        case '[':
          ++depth;
          step();
          break;
        case '}':
        case ']':
          --depth;
          step();
          break;
        case ',':
        case ':':
          step();
          break;
        default:
          at_ = std::min(text_.find_first_of(",:]} \t\r\n", at_), text_.size());
          skip_blanks();
      }
    } while (depth > 0 && !at_end());
  }

 private:
  [[nodiscard]] std::size_t find_quote() const { return std::min(text_.find('"', at_), text_.size()); }
  /// Whether the quote here has an odd number of backslashes before it, in the string from `begin` on.
  [[nodiscard]] bool is_escaped(std::size_t begin) const {
    std::size_t first = at_;
    while (first > begin + 1 && text_[first - 1] == '\\') --first;
    return (at_ - first) % 2 != 0;
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  std::string_view text_;
  std::size_t at_;
};

/// Offset of a member of the object or array at `at`.
std::optional<std::size_t> find_member(std::string_view text, std::size_t at, const std::string& name) {
  JsonWalker walker(text, at);
  const bool object = walker.here() == '{';
  if (!object && walker.here() != '[') return std::nullopt;
  walker.step();
  for (std::size_t index = 0; !walker.at_end() && walker.here() != '}' && walker.here() != ']'; ++index) {
    std::string key = std::to_string(index);
    if (object) {
      key = walker.string();
      walker.step();
    }
    if (key == name) return walker.at();
    walker.skip_value();
    if (walker.here() == ',') walker.step();
  }
  return std::nullopt;
}

}  // namespace

std::string pointer_text(const JsonPath& path) {
  std::string text;
  for (const std::string& part : path) text += "/" + part;
  return text.empty() ? "the whole file" : text;
}

std::size_t locate(std::string_view text, const JsonPath& path) {
  std::size_t at = JsonWalker(text).at();
  for (const std::string& part : path) {
    const std::optional<std::size_t> member = find_member(text, at, part);
    if (!member) break;
    at = *member;
  }
  return at;
}

std::optional<DuplicateKey> find_duplicate_key(std::string_view text) {
  std::vector<std::set<std::string>> open;
  for (JsonWalker walker(text); !walker.at_end();) {
    const std::size_t at = walker.at();
    switch (walker.here()) {
      case '{':
      case '[':
        open.emplace_back();
        walker.step();
        break;
      case '}':
      case ']':
        open.pop_back();
        walker.step();
        break;
      case ',':
      case ':':
        walker.step();
        break;
      case '"': {
        const std::string_view token = walker.token();
        if (walker.here() != ':') break;
        std::string key = JsonWalker::decoded(token);
        if (!open.back().insert(key).second) return DuplicateKey{std::move(key), at};
        break;
      }
      default:
        walker.skip_value();
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> find_nested_deeper(std::string_view text, std::size_t limit) {
  std::size_t depth = 0;
  for (JsonWalker walker(text); !walker.at_end();) {
    const char here = walker.here();
    if (here == '"') {
      walker.token();
      continue;
    }
    if (here == '{' || here == '[') ++depth;
    if (here == '}' || here == ']') --depth;
    if (depth > limit) return walker.at();
    walker.step();
  }
  return std::nullopt;
}

TextPosition position_of(std::string_view text, std::size_t offset) {
  TextPosition position;
  for (const char c : text.substr(0, offset)) {
    const bool continues_a_character = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (c == '\n') {
      ++position.row;
      position.column = 1;
    } else if (!continues_a_character) {
      ++position.column;
    }
  }
  return position;
}

}  // namespace ppsim

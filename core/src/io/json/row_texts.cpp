#include "row_texts.hpp"

#include <array>

namespace ppsim {
namespace {

/// Reads a text from left to right, as long as it is what is expected.
class RowReader {
 public:
  RowReader(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  [[nodiscard]] std::size_t at() const { return at_; }

  bool take(char wanted) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  /// An array of what `item` reads; false where it is something else.
  template <class Item>
  bool array(Item item) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!item()) return false;
    } while (take(','));
    return take(']');
  }

  bool string(std::string_view& out) {
    if (!take('"')) return false;
    const std::size_t begin = at_;
    while (at_ < text_.size() && kIsPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
    out = text_.substr(begin, at_ - begin);
    return at_ < text_.size() && text_[at_++] == '"';
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  /// For each character, whether a JSON string holds it without an escape.
  static constexpr std::array<bool, 256> kIsPlain = [] {
    std::array<bool, 256> is_plain = {};
    for (std::size_t c = 0x20; c < 0x7f; ++c) is_plain[c] = c != '"' && c != '\\';
    return is_plain;
  }();

  std::string_view text_;
  std::size_t at_;
};

std::optional<LiftedRows> lifted(std::string_view text, const std::string& key, std::size_t begin) {
  LiftedRows result;
  result.key = key;
  RowReader reader(text, begin);
  const bool read = reader.array([&] {
    std::vector<std::string_view>& row = result.rows.emplace_back();
    return reader.array([&] { return reader.string(row.emplace_back()); });
  });
  if (!read) return std::nullopt;
  result.rest = std::string(text.substr(0, begin)) + '[';
  for (std::size_t i = 0; i < result.rows.size(); ++i) result.rest += i > 0 ? ",[]" : "[]";
  result.rest += ']';
  result.rest += text.substr(reader.at());
  return result;
}

}  // namespace

std::optional<LiftedRows> lift_rows(std::string_view text) {
  std::optional<LiftedRows> found;
  for (const std::string key : {"rows", "ranks"}) {
    const std::string ending = key + '"';  // quotes are many, and these letters few
    for (std::size_t at = text.find(ending); at != std::string_view::npos; at = text.find(ending, at + 1)) {
      RowReader reader(text, at + ending.size());
      if (at == 0 || text[at - 1] != '"' || !reader.take(':')) continue;
      auto rows = lifted(text, key, reader.at());
      if (rows && found) return std::nullopt;
      if (rows) found = std::move(rows);
    }
  }
  return found;
}

}  // namespace ppsim

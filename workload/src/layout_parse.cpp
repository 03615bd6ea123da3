#include <charconv>
#include <optional>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/workload/layout.hpp"

namespace ppsim::workload {
namespace {

constexpr std::size_t kMaxSymbols = 1 << 20;
constexpr std::string_view kLetters = "EtmL";  // in their order
constexpr const char* kItem = "E, t, m, L, | or a group in parentheses";

/// A letter or boundary after repetition, and where it was written.
struct Symbol {
  char text;
  int column;
};

tl::unexpected<Error> error_at(int column, std::string message, std::string found, std::string expected) {
  return make_error(
      ErrorCode::bad_argument, std::move(message),
      {.file = "layout", .column = column, .found = std::move(found), .expected = std::move(expected)});
}

/// Reads the string and unrolls its repetitions.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  Expected<std::vector<Symbol>> read() {
    PPSIM_RETURN_IF_ERROR(read_items(false));
    return std::move(symbols_);
  }

 private:
  [[nodiscard]] bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] int column() const { return static_cast<int>(at_) + 1; }

  [[nodiscard]] tl::unexpected<Error> unexpected(const std::string& expected) const {
    return error_at(column(), "a broken layout", at_ < text_.size() ? std::string(1, text_[at_]) : "its end",
                    expected);
  }

  Expected<void> read_items(bool in_group) {
    while (at_ < text_.size() && !(in_group && at(')'))) {
      if (at(',')) {
        ++at_;
      } else if (auto item = at('(') ? read_group(in_group) : read_letter(); !item) {
        return item;
      }
    }
    return {};
  }

  Expected<void> read_letter() {
    const std::size_t first = symbols_.size();
    const char c = text_[at_];
    if (c != '|' && kLetters.find(c) == std::string_view::npos) return unexpected(kItem);
    symbols_.push_back({c, column()});
    ++at_;
    return at('*') ? repeat(first) : Expected<void>();
  }

  Expected<void> read_group(bool in_group) {
    // Megatron unrolls one level only and misreads more.
    if (in_group) return unexpected("no parentheses within parentheses");
    const std::size_t first = symbols_.size();
    ++at_;
    if (at(')')) return unexpected(kItem);
    PPSIM_RETURN_IF_ERROR(read_items(true));
    if (!at(')')) return unexpected(")");
    ++at_;
    if (!at('*')) return unexpected("* and a number after a group");
    return repeat(first);
  }

  /// `*n` after the symbols from `first` on.
  Expected<void> repeat(std::size_t first) {
    ++at_;
    const auto count = number();
    if (!count) return unexpected("a whole number");
    const std::vector<Symbol> once(symbols_.begin() + static_cast<std::ptrdiff_t>(first), symbols_.end());
    if (first + once.size() * std::min(*count, kMaxSymbols) > kMaxSymbols)
      return unexpected("at most " + std::to_string(kMaxSymbols) + " letters and boundaries");
    symbols_.resize(first);
    for (std::size_t i = 0; i < *count; ++i) append_all(symbols_, once);
    return {};
  }

  std::optional<std::size_t> number() {
    std::size_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    return error == std::errc() ? value : kMaxSymbols + 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Symbol> symbols_;
};

/// E once, then t, then m, then L once.
Expected<void> check_order(const std::vector<Symbol>& symbols) {
  char last = 0;
  for (const Symbol& symbol : symbols) {
    if (symbol.text == '|') continue;
    const std::string found(1, symbol.text);
    if (last == 0 && symbol.text != 'E')
      return error_at(symbol.column, "a layout begins with the embedding", found, "E");
    const bool twice = symbol.text == last && (last == 'E' || last == 'L');
    if (twice || (last != 0 && kLetters.find(symbol.text) < kLetters.find(last)))
      return error_at(symbol.column, "a layout has E once, then t, then m, then L once",
                      found + " after " + std::string(1, last), "another order");
    last = symbol.text;
  }
  if (last == 'L') return {};
  const int end = symbols.empty() ? 1 : symbols.back().column + 1;
  return error_at(end, "a layout ends with the loss", "its end", "L");
}

/// E on the first stage, L on the last.
Expected<void> check_end_stages(const std::vector<Symbol>& symbols) {
  if (symbols.front().text == '|')
    return error_at(symbols.front().column, "the embedding stands on the first stage", "|", "E");
  if (symbols.back().text == '|')
    return error_at(symbols.back().column, "the loss stands on the last stage", "|", "the end of the layout");
  return {};
}

}  // namespace

Expected<PipelineLayout> parse_layout(std::string_view text) {
  PPSIM_ASSIGN_OR_RETURN(const auto symbols, LayoutReader(text).read());
  PPSIM_RETURN_IF_ERROR(check_order(symbols));
  PPSIM_RETURN_IF_ERROR(check_end_stages(symbols));
  PipelineLayout layout;
  layout.stages.emplace_back();
  for (const Symbol& symbol : symbols) {
    if (symbol.text == '|') layout.stages.emplace_back();
    StageContents& stage = layout.stages.back();
    stage.embedding = stage.embedding || symbol.text == 'E';
    stage.layers += symbol.text == 't' ? 1 : 0;
    stage.mtp += symbol.text == 'm' ? 1 : 0;
    stage.loss = stage.loss || symbol.text == 'L';
  }
  return layout;
}

}  // namespace ppsim::workload

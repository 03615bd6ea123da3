#include "xml.hpp"

#include <algorithm>
#include <optional>

namespace ppsim::workload {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kSpace = " \t\r\n";

class XmlParser {
 public:
  XmlParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Expected<XmlElement> parse() {
    skip_to_element();
    if (at_end() || peek() != '<') return wrong("an element");
    auto root = element(0);
    if (!root) return root;
    skip_to_element();
    if (!at_end()) return wrong("the end of the file behind the outermost element");
    return root;
  }

 private:
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return text_[at_]; }
  [[nodiscard]] bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  /// The row of the place that is read, which only moves on.
  [[nodiscard]] int row() const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    row_ += static_cast<int>(std::count(counted_, end, '\n'));
    counted_ = end;
    return row_;
  }

  [[nodiscard]] tl::unexpected<Error> wrong(const std::string& expected) const {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    std::string found(rest.substr(0, std::min<std::size_t>(rest.find_first_of("\r\n"), 24)));
    if (found.empty()) found = at_end() ? "the end of the file" : "the end of a line";
    return make_error(ErrorCode::bad_file, "no XML",
                      {.file = file_, .row = row(), .found = std::move(found), .expected = expected});
  }

  void skip(std::string_view characters) {
    at_ = std::min(text_.find_first_not_of(characters, at_), text_.size());
  }

  void skip_behind(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }

  /// Over text, comments, the declaration and the type of the document.
  void skip_to_element() {
    while (!at_end()) {
      at_ = std::min(text_.find('<', at_), text_.size());
      if (starts("<!--")) {
        skip_behind("-->");
      } else if (starts("<?") || starts("<!")) {
        skip_behind(">");
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(" \t\r\n=/>\"'<", at_), text_.size());
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// The fault, if there is one.
  std::optional<tl::unexpected<Error>> read_attribute(XmlElement& element) {
    std::string key = name();
    skip(kSpace);
    if (key.empty() || at_end() || peek() != '=') return wrong("an attribute, as in name=\"value\"");
    ++at_;
    skip(kSpace);
    if (at_end() || (peek() != '"' && peek() != '\'')) return wrong("a value in quotation marks");
    const std::size_t end = text_.find(peek(), at_ + 1);
    if (end == std::string_view::npos) return wrong("a value that ends");
    element.attributes.emplace_back(std::move(key), text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return std::nullopt;
  }

  Expected<XmlElement> element(int depth) {
    XmlElement result;
    result.row = row();
    if (depth > kMaxDepth)
      return wrong("at most " + std::to_string(kMaxDepth) + " elements within each other");
    ++at_;
    result.name = name();
    if (result.name.empty()) return wrong("the name of an element");
    for (skip(kSpace); !at_end() && peek() != '>' && peek() != '/'; skip(kSpace)) {
      if (auto error = read_attribute(result)) return *error;
    }
    if (starts("/>")) {
      at_ += 2;
      return result;
    }
    if (!starts(">")) return wrong("> or />");
    ++at_;
    return with_children(std::move(result), depth);
  }

  Expected<XmlElement> with_children(XmlElement parent, int depth) {
    for (skip_to_element(); !starts("</"); skip_to_element()) {
      if (at_end()) return wrong("</" + parent.name + "> for row " + std::to_string(parent.row));
      auto child = element(depth + 1);
      if (!child) return child;
      parent.children.push_back(*std::move(child));
    }
    const std::size_t end = at_;
    at_ += 2;
    if (name() != parent.name) {
      at_ = end;
      return wrong("</" + parent.name + "> for row " + std::to_string(parent.row));
    }
    skip(kSpace);
    if (!starts(">")) return wrong(">");
    ++at_;
    return parent;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  mutable std::string_view::const_iterator counted_ = text_.begin();  ///< up to here rows are counted
  mutable int row_ = 1;
};

}  // namespace

std::string_view XmlElement::attribute(std::string_view wanted) const {
  const auto found = std::ranges::find(attributes, wanted, &std::pair<std::string, std::string>::first);
  return found == attributes.end() ? std::string_view() : std::string_view(found->second);
}

Expected<XmlElement> parse_xml(std::string_view text, const std::string& file) {
  return XmlParser(text, file).parse();
}

}  // namespace ppsim::workload

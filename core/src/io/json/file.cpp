#include "file.hpp"

#include <algorithm>

#include "io/action_scan.hpp"
#include "schema.hpp"

namespace ppsim {
namespace {

using nlohmann::json;

/// Far more than any file needs; what reads and prints values recurses.
constexpr std::size_t kMaxDepth = 64;

/// The message of nlohmann/json without its prefix up to the position, and what it expected.
std::pair<std::string, std::string> message_and_expected(const std::string& what) {
  constexpr std::string_view kExpected = "; expected ";
  const std::size_t column = what.find("column ");
  const std::size_t begin = column == std::string::npos ? std::string::npos : what.find(": ", column);
  const std::string message = begin == std::string::npos ? what : what.substr(begin + 2);
  const std::size_t expected = message.find(kExpected);
  if (expected == std::string::npos) return {message, "JSON"};
  return {message.substr(0, expected), message.substr(expected + kExpected.size())};
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "\"" : " or \"") + text + "\"";
  return list;
}

}  // namespace

Expected<JsonFile> JsonFile::parse(std::string_view text, const std::string& file) {
  JsonFile parsed;
  parsed.text_ = text;
  parsed.file_ = file;
  const auto error_at_offset = [&](std::size_t offset, Error error) {
    const TextPosition position = position_of(text, offset);
    error.place.file = file;
    error.place.row = position.row;
    error.place.column = position.column;
    return tl::unexpected(std::move(error));
  };
  // nlohmann takes a zero byte for the end of the text and says nothing of what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return error_at_offset(zero, text_error("not JSON: a zero byte", text.substr(zero, 1), "text").value());
  }
  try {
    parsed.root_ = json::parse(text);
  } catch (const json::exception& failure) {
    const auto* syntax = dynamic_cast<const json::parse_error*>(&failure);
    // nlohmann counts the bytes that it has read, the wrong one included.
    const std::size_t offset = syntax == nullptr || syntax->byte == 0 ? 0 : syntax->byte - 1;
    const auto [message, expected] = message_and_expected(failure.what());
    const bool at_end = offset >= text.size();
    const std::string_view found = at_end ? "the end of the file" : text.substr(offset, 1);
    const std::string cut = at_end ? "not JSON, as if the file was cut off: " : "not JSON: ";
    return error_at_offset(offset,
                           text_error(cut + printable(message, 200), found, printable(expected)).value());
  }
  if (const auto deep = find_nested_deeper(text, kMaxDepth)) {
    return error_at_offset(*deep, text_error("values nested too deeply", text.substr(*deep, 1),
                                             "at most " + std::to_string(kMaxDepth) + " levels")
                                      .value());
  }
  if (const auto duplicate = find_duplicate_key(text)) {
    return error_at_offset(duplicate->offset,
                           text_error("a key given twice", duplicate->key, "each key once").value());
  }
  return parsed;
}

Expected<std::string> JsonFile::format(const std::vector<std::string>& formats,
                                       const std::vector<int>& versions) const {
  if (!root_.is_object()) return error_at({}, "not a file of ppsim", value_text(root_), "an object");
  const auto format = root_.find("format");
  if (format == root_.end()) return error_at({}, "a file without \"format\"", "", quoted_list(formats));
  const auto known = [&](const std::string& name) { return *format == name; };
  if (std::ranges::none_of(formats, known)) {
    return error_at({"format"}, "a file of another format", value_text(*format), quoted_list(formats));
  }
  std::string wanted;
  for (const int version : versions) wanted += (wanted.empty() ? "" : " or ") + std::to_string(version);
  const auto found = root_.find("version");
  if (found == root_.end()) return error_at({}, "a file without \"version\"", "", wanted);
  const auto is_found = [&](int version) { return found->is_number_integer() && *found == version; };
  if (std::ranges::none_of(versions, is_found)) {
    return error_at({"version"}, "a file of another version", value_text(*found), wanted);
  }
  return format->get<std::string>();
}

Expected<void> JsonFile::validate(std::string_view schema_name) const {
  const std::optional<SchemaViolation> violation = find_violation(root_, schema_name);
  if (!violation) return {};
  return error_at(violation->path, violation->message, violation->found, violation->expected);
}

tl::unexpected<Error> JsonFile::error_at(const JsonPath& path, std::string message, std::string found,
                                         std::string expected) const {
  return error_at(
      path,
      Error{ErrorCode::bad_file, std::move(message), {"", 0, 0, std::move(found), std::move(expected)}});
}

tl::unexpected<Error> JsonFile::error_at(const JsonPath& path, Error error) const {
  if (error.code == ErrorCode::bad_argument) error.code = ErrorCode::bad_file;
  const TextPosition position = position_of(text_, locate(text_, path));
  error.message = printable(pointer_text(path)) + ": " + error.message;
  error.place.file = file_;
  error.place.row = position.row;
  error.place.column = position.column;
  return tl::unexpected(std::move(error));
}

}  // namespace ppsim

#include "misread.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace ppsim::planner {
namespace {

constexpr const char* kOldAlphabet =
    "; B beside W and no I is the input gradient of the alphabet before PyTorch 2.6";
constexpr const char* kUseLegacy = "--dialect legacy";

bool is_present(CsvDialect dialect) {
  return dialect == CsvDialect::torch || dialect == CsvDialect::torch_2_15;
}

/// True where some B has a W of its own, and none is called I.
bool has_old_backwards(const Program& program) {
  std::set<std::pair<std::int32_t, std::int32_t>> whole;
  std::set<std::pair<std::int32_t, std::int32_t>> weights;
  for (const Action& action : program.all_actions()) {
    if (action.kind == OpKind::backward_input) return false;
    if (action.kind == OpKind::backward) whole.insert({action.subject, action.microbatch});
    if (action.kind == OpKind::backward_weight) weights.insert({action.subject, action.microbatch});
  }
  return std::ranges::any_of(weights, [&](const auto& cell) { return whole.contains(cell); });
}

/// A file of PyTorch's, of which an older alphabet was said.
bool is_of_torch(std::string_view text, const std::string& file, CsvDialect dialect) {
  return !is_present(dialect) && !csv_has_communication(text) &&
         schedule_from_csv(text, file, CsvDialect::torch).has_value();
}

Error with_hints(Error error, std::string_view text, const std::string& file, CsvDialect dialect) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return {ErrorCode::bad_file,
            "a text in UTF-16",
            {.file = file,
             .row = 1,
             .column = 1,
             .found = "its byte order mark",
             .expected = "UTF-8: iconv -f UTF-16 -t UTF-8"}};
  }
  if (is_of_torch(text, file, dialect)) {
    return {
        ErrorCode::bad_file,
        "a file of another alphabet: it is complete in that of PyTorch 2.6 and later, where B is the whole "
        "backward",
        {.file = file, .found = "B without W", .expected = "no --dialect"}};
  }
  const bool is_old = is_present(dialect) && !csv_has_communication(text) &&
                      schedule_from_csv(text, file, CsvDialect::legacy).has_value();
  if (is_old) {
    error.message += kOldAlphabet;
    if (!error.place.expected.ends_with(kUseLegacy))
      error.place.expected += (error.place.expected.empty() ? "" : ", or ") + std::string(kUseLegacy);
  }
  if (!text.empty() && text.back() != '\n' && text.back() != '\r')
    error.message += "; the last row has no end of line, as if the file was cut off";
  return error;
}

}  // namespace

bool is_python_list(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '[' && text[first] != '{')) return false;
  const std::size_t inner = text.find_first_not_of(" \t\r\n[{(0123456789:", first);
  const std::string_view rest = inner == std::string_view::npos ? "" : text.substr(inner);
  const bool follows_number = inner > 0 && inner != std::string_view::npos &&
                              std::isdigit(static_cast<unsigned char>(text[inner - 1])) != 0;
  return rest.starts_with("None") ||
         (follows_number && !rest.empty() && std::isupper(static_cast<unsigned char>(rest.front())) != 0);
}

Error python_list_error(const std::string& file) {
  return {ErrorCode::bad_file,
          "a list of actions as Python prints it, such as that of get_schedule_ops, is no file",
          {.file = file,
           .row = 1,
           .found = "brackets",
           .expected = "csv.writer(file).writerows(list), or ppsim.torch.check(list) in Python"}};
}

Expected<Ir> looked_at(Expected<Ir> ir, std::string_view text, const std::string& file, CsvDialect dialect) {
  if (!ir) return tl::unexpected(with_hints(std::move(ir).error(), text, file, dialect));
  const auto* program = std::get_if<Program>(&*ir);
  if (program == nullptr || !is_present(dialect) || !has_old_backwards(*program)) return ir;
  return make_error(ErrorCode::bad_file, std::string("a file of another alphabet") + kOldAlphabet,
                    {.file = file, .found = "B and W of one microbatch", .expected = kUseLegacy});
}

}  // namespace ppsim::planner

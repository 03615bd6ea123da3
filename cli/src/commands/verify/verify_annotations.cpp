#include <iostream>

#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/planner/annotations.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/ir_source.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// Of a file whose cells are looked up; empty where it cannot be read, as that of a name.
std::string text_of(const std::string& input) {
  if (suffix_of(input) != ".csv") return "";
  return read_text_file(input).value_or("");
}

std::vector<Annotation> of_answer(const std::string& input, const VerifyAnswer& answer) {
  const std::string text = text_of(input);
  std::vector<Annotation> result;
  for (const PropertyResult& property : answer.report.results) {
    const std::string title = "ppsim: " + std::string(property_name(property.property));
    std::vector<Annotation> found;
    if (const auto* refuted = std::get_if<Refuted>(&property.verdict)) {
      found = annotations_of(title + " is refuted", explain(answer.program(), refuted->counterexample), input,
                             text);
    } else if (const auto* unknown = std::get_if<Unknown>(&property.verdict);
               unknown != nullptr && answer.exit() == kUnknown) {
      found = annotations_of(title + " is unknown", std::vector{unknown->reason}, input, text);
    }
    append_all(result, found);
  }
  if (const auto pool = answer.pool_above_limit()) {
    const std::string line = "the pool of addresses takes " + size_text(*pool) + ", more than the limit";
    const auto found = annotations_of("ppsim: does not fit", std::vector{line}, input, text);
    append_all(result, found);
  }
  return result;
}

}  // namespace

void annotate(const VerifyRequest& request, const Expected<VerifyAnswer>& answer, const Output& output) {
  if (request.annotations.empty()) return;
  const std::string& given = request.input.input;
  const std::string input = names_file(given) && given != "-" ? given : "";
  const std::vector<Annotation> annotations =
      answer ? of_answer(input, *answer) : std::vector{annotation_of(answer.error(), input, text_of(input))};
  std::ostream& out = output.json ? std::cerr : std::cout;
  for (const Annotation& annotation : annotations) out << github_command(annotation) << '\n';
}

}  // namespace ppsim::cli

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

/// Replaces, inserts, drops or moves bytes in a few places; what it inserts is what such files are made of.
std::string damaged(std::string text) {
  constexpr std::string_view kBytes = "\"{}[](),:;@.<>! -0123456789FBIWRSEND_COL\\eE\n\r\t\xff\xef";
  for (int i = *rc::gen::inRange(1, 5); i > 0 && !text.empty(); --i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto length = *rc::gen::inRange<std::size_t>(1, 9);
    const char byte = kBytes[*rc::gen::inRange<std::size_t>(0, kBytes.size())];
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(*rc::gen::inRange<std::size_t>(0, text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

/// An error must say something and, when it is about a file, in which.
template <class T>
void check_error(const Expected<T>& read) {
  if (read) return;
  RC_ASSERT(!read.error().message.empty());
  RC_ASSERT(read.error().place.file == "f");
  RC_ASSERT(read.error().code == ErrorCode::bad_file || read.error().code == ErrorCode::ill_formed);
}

template <class T>
void check_text_error(const Expected<T>& read) {
  RC_ASSERT(read.has_value() || !read.error().place.expected.empty());
}

void read_everything(const std::string& text) {
  check_error(ir_from_json(text, "f"));
  check_error(tables_from_json(text, "f"));
  check_error(certificate_from_json(text, "f"));
  std::ignore = csv_has_communication(text);
  for (const CsvDialect dialect : {CsvDialect::torch, CsvDialect::legacy, CsvDialect::zero_bubble}) {
    check_error(schedule_from_csv(text, "f", dialect));
    check_error(program_from_csv(text, "f", dialect, CommunicatorPolicy::per_edge));
  }
}

RC_GTEST_PROP(Broken, RandomBytesAreRefused, (const std::string& text)) { read_everything(text); }

RC_GTEST_PROP(Broken, DamagedSchedulesAreReadOrRefused, ()) {
  read_everything(damaged(to_json(*test::schedules(test::general_shapes()))));
}

RC_GTEST_PROP(Broken, DamagedProgramsAreReadOrRefused, ()) {
  const auto schedule = *test::schedules(test::general_shapes());
  read_everything(damaged(to_json(test::random_program(schedule, 1, *rc::gen::arbitrary<std::uint64_t>()))));
}

RC_GTEST_PROP(Broken, DamagedTablesAreReadOrRefused, ()) {
  Tables tables;
  tables.costs = test::random_costs(4, *rc::gen::arbitrary<std::uint64_t>());
  tables.sizes = activation_size_table(7);
  read_everything(damaged(to_json(tables)));
}

RC_GTEST_PROP(Broken, DamagedCertificatesAreReadOrRefused, ()) {
  Certificate certificate;
  certificate.order = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  certificate.capabilities.credits = 1;
  certificate.memory = {{RankId(0), 7, {{0, 1, 3}}}};
  read_everything(damaged(to_json(certificate)));
}

RC_GTEST_PROP(Broken, DamagedCsvIsReadOrRefused, ()) {
  const auto text = to_csv(*test::schedules(test::plain_shapes()), CsvDialect::torch);
  RC_ASSERT(text.has_value());
  read_everything(damaged(*text));
}

RC_GTEST_PROP(Broken, DamagedInstructionsAreReadOrRefused, ()) {
  const auto schedule = *test::schedules(test::general_shapes());
  const Program program = test::random_program(schedule, 2, *rc::gen::arbitrary<std::uint64_t>());
  RC_PRE(program.size() > 0);
  const auto id = InstructionId(*rc::gen::inRange(0, static_cast<int>(program.size())));
  const std::string text = damaged(instruction_text(program, id));
  check_text_error(parse_instruction(program.pipeline(), text));
  check_text_error(parse_cell(program.pipeline(), text));
  check_text_error(parse_action(program.pipeline(), text));
}

}  // namespace
}  // namespace ppsim

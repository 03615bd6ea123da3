// PyTorch CSV of both flavours. The first byte picks the alphabet.

#include "fuzz.hpp"
#include "ppsim/core/io/torch_csv.hpp"

namespace {

using ppsim::CsvDialect;

template <class Ir, class Reader>
void check(const ppsim::Expected<Ir>& ir, CsvDialect dialect, const Reader& reader) {
  if (!ppsim::fuzz::read(ir)) return;
  const auto text = ppsim::to_csv(*ir, dialect);
  if (!ppsim::fuzz::read(text)) return;
  const auto again = reader(*text);
  ppsim::fuzz::require(again.has_value() && *again == *ir, "what is written reads as it was");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr CsvDialect kDialects[] = {CsvDialect::torch, CsvDialect::legacy, CsvDialect::zero_bubble};
  const CsvDialect dialect = kDialects[data[0] % 3];
  const std::string_view text = ppsim::fuzz::text_of(data + 1, size - 1);
  const auto policy = ppsim::CommunicatorPolicy::per_edge;
  if (ppsim::csv_has_communication(text)) {
    const auto reader = [&](std::string_view t) {
      return ppsim::program_from_csv(t, "input.csv", dialect, policy);
    };
    check(reader(text), dialect, reader);
  } else {
    const auto reader = [&](std::string_view t) { return ppsim::schedule_from_csv(t, "input.csv", dialect); };
    check(reader(text), dialect, reader);
  }
  return 0;
}

// Tables of costs and sizes.

#include "fuzz.hpp"
#include "ppsim/core/io/json.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tables = ppsim::tables_from_json(ppsim::fuzz::text_of(data, size), "input.json");
  if (!ppsim::fuzz::read(tables)) return 0;
  const auto again = ppsim::tables_from_json(ppsim::to_json(*tables), "output.json");
  ppsim::fuzz::require(again.has_value() && *again == *tables, "what is written reads as it was");
  return 0;
}

#include "support/sliced_programs.hpp"

#include <numeric>
#include <sstream>

#include "support/small_transformer.hpp"

namespace ppsim::test {

TransformerConfig sliced_transformer(Arithmetic arithmetic, const SliceLengths& lengths) {
  TransformerConfig config = small_transformer(3, arithmetic);
  config.sequence = std::accumulate(lengths.begin(), lengths.end(), 0);
  config.microbatch_size = 2;
  config.slice_lengths = lengths;
  return config;
}

ScheduleParameters SlicedCase::parameters() const {
  return {.ranks = ranks, .microbatches = microbatches, .slices = static_cast<int>(lengths.size())};
}

const std::vector<SlicedCase>& sliced_cases() {
  static const std::vector<SlicedCase> cases = {{1, 1, {1, 1}},    {1, 3, {2, 5}},    {2, 1, {3, 1, 1}},
                                                {2, 4, {4, 4}},    {3, 5, {1, 4, 2}}, {4, 3, {1, 1, 1, 1}},
                                                {4, 6, {5, 1, 3}}, {2, 3, {6}}};
  return cases;
}

void for_each_sliced(
    const LoweringOptions& lowering,
    const std::function<void(const std::string& name, const Program&, const SlicedCase&)>& visit) {
  for (const ScheduleInfo& info : registered_schedules()) {
    if (!info.has_slices) continue;
    for (const SlicedCase& one : sliced_cases()) {
      std::ostringstream name;
      name << info.name << " with " << one.parameters();
      visit(name.str(), lower(generate(info.name, one.parameters()).value(), lowering).value(), one);
    }
  }
}

}  // namespace ppsim::test

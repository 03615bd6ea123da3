#include "source.hpp"

#include <limits>

namespace ppsim::verifier {
namespace {

constexpr std::size_t kMaxKept = 1'000'000;  // instructions
constexpr std::size_t kShare = 4;            // a quarter is for what is not needed

}  // namespace

std::shared_ptr<const Program> Source::get(int microbatches) {
  if (const auto kept = kept_.find(microbatches); kept != kept_.end()) return kept->second;
  if (microbatches < 1 || failure_ || is_late() || refused_.contains(microbatches)) return nullptr;
  auto program = program_for_(microbatches);
  if (!program) {
    if (program.error().code == ErrorCode::bad_argument) {
      refused_.insert(microbatches);
    } else {
      failure_ = program.error();
    }
    return nullptr;
  }
  auto shared = std::make_shared<const Program>(*std::move(program));
  per_microbatch_ = static_cast<double>(shared->size()) / microbatches;
  used_ += shared->size();
  keep(microbatches, shared);
  return shared;
}

void Source::keep(int microbatches, std::shared_ptr<const Program> program) {
  if (kept_instructions_ + program->size() > kMaxKept) return;
  kept_instructions_ += program->size();
  kept_.emplace(microbatches, std::move(program));
}

bool Source::fits(double microbatches, std::size_t limit) const {
  return per_microbatch_ * microbatches + static_cast<double>(used_) <= static_cast<double>(limit);
}

bool Source::may_generate(int microbatches) const { return !is_late() && fits(microbatches, limit_); }

bool Source::affords(int microbatches) const { return !is_late() && fits(microbatches, limit_ / kShare); }

bool Source::is_in_reach(std::int64_t microbatches) const {
  const std::size_t share = limit_ / kShare;
  return per_microbatch_ * static_cast<double>(microbatches) <= static_cast<double>(share);
}

int dense_limit(Source& source, int ranks) {
  int dense = 1;
  // Twice: the other half is for the comparisons that find and confirm the period.
  while (dense < 2 * steady_from(ranks) && source.affords(2 * dense * (dense + 1))) ++dense;
  return dense;
}

bool may_generate_all(const Source& source, int microbatches, int step) {
  // As if all of them were one Program.
  const auto m = static_cast<std::int64_t>(microbatches);
  const std::int64_t sum = m * (m + step) / 2 / step;
  return sum <= std::numeric_limits<int>::max() && source.may_generate(static_cast<int>(sum));
}

}  // namespace ppsim::verifier

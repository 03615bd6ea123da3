#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "support/transformer_run.hpp"

namespace ppsim::test {

/// The parts of a collective as the executor for GPUs has them: copies, one as far behind the other as the
/// next.
class PartsInOne {
 public:
  /// Requires: parts of one size.
  explicit PartsInOne(std::span<const CollectivePart> parts) : parts_(parts.begin(), parts.end()) {
    const CollectivePart& one = parts_.front();
    statistics_ = (one.statistics.size() + 63) / 64 * 64;
    stride_ = statistics_ + (one.summand.size() + 63) / 64 * 64;
    bytes_ = AlignedBytes(static_cast<Bytes>(stride_ * parts_.size()));
    const std::vector<CollectivePart> copies = in(memory());
    for (std::size_t p = 0; p < copies.size(); ++p) {
      std::copy(parts_[p].statistics.begin(), parts_[p].statistics.end(), copies[p].statistics.begin());
      std::copy(parts_[p].summand.begin(), parts_[p].summand.end(), copies[p].summand.begin());
    }
  }

  [[nodiscard]] std::span<std::byte> memory() const { return bytes_.span(); }
  /// Where the parts lie in a copy of the memory.
  [[nodiscard]] std::vector<CollectivePart> in(std::span<std::byte> copy) const {
    std::vector<CollectivePart> all;
    for (const CollectivePart& part : parts_) {
      const std::span<std::byte> whole = copy.subspan(all.size() * stride_, stride_);
      all.push_back(
          {whole.first(part.statistics.size()), whole.subspan(statistics_).first(part.summand.size())});
    }
    return all;
  }
  /// Copies all back to where they came from.
  void bring_back() const {
    const std::vector<CollectivePart> copies = in(memory());
    for (std::size_t p = 0; p < copies.size(); ++p) {
      std::copy(copies[p].statistics.begin(), copies[p].statistics.end(), parts_[p].statistics.begin());
      std::copy(copies[p].summand.begin(), copies[p].summand.end(), parts_[p].summand.begin());
    }
  }

 private:
  std::vector<CollectivePart> parts_;
  std::size_t statistics_ = 0;
  std::size_t stride_ = 0;
  AlignedBytes bytes_;
};

}  // namespace ppsim::test

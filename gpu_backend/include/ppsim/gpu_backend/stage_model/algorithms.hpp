#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/units.hpp"
#include "ppsim/gpu_backend/stage_model/stages.hpp"

namespace ppsim::gpu_backend {

/// How a library computes one product. Another algorithm rounds otherwise, so all ranks of a job, and all
/// jobs whose bits are compared, have the same one.
struct PinnedAlgorithm {
  std::string product;      ///< types, dimensions and places of its matrices, as the library sees them
  int multiprocessors = 0;  ///< of the device, or of the part of it, that it was timed on
  std::string algorithm;    ///< the library's own description, in hexadecimal digits
  Nanoseconds ns = 0;
  Nanoseconds first_ns = 0;  ///< by the algorithm that the library suggests first
  friend bool operator==(const PinnedAlgorithm&, const PinnedAlgorithm&) = default;
};

/// The algorithms of products on one type of device by one version of a library, which give no meaning to
/// those of another one.
struct Algorithms {
  std::string device, library;  ///< "NVIDIA H100 80GB HBM3", "cuBLASLt 13.1.0"; empty: of none yet
  std::vector<PinnedAlgorithm> products;

  /// Returns: null for a product that has none.
  [[nodiscard]] const PinnedAlgorithm* find(std::string_view product, int multiprocessors) const;
  friend bool operator==(const Algorithms&, const Algorithms&) = default;
};

/// Runs work on an idle stream of a rank, waits for it, and says how long the device took.
using WorkTimer = std::function<Nanoseconds(const std::function<void(GpuStream)>& work)>;

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::Algorithms;
using gpu_backend::PinnedAlgorithm;
using gpu_backend::WorkTimer;
}  // namespace ppsim

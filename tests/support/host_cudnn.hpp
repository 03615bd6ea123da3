#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/cudnn_table.hpp"
#include "support/host_kernels.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// The properties of a stand-in for cuDNN.
struct HostCudnnOptions {
  std::size_t version = 91900;
  int engines = 2;              ///< that the heuristics find
  int unplannable = 0;          ///< of them the first, which refuse when a plan is made
  bool deterministic = true;    ///< whether the engines say so
  std::size_t workspace = 256;  ///< bytes of a plan; backward needs room for all scores on top
};

/// The calls that a stand-in has recorded.
struct HostCudnnBooks {
  int live = 0;         ///< objects and handles that were not destroyed
  int double_free = 0;  ///< objects that were destroyed twice, or never made
  int executions = 0;
};

/// cuDNN's calls as loops of the processor. Objects are held to the library's rules: attributes and their
/// types by kind of object, no change of finished objects, no use of unfinished ones, shapes that fit,
/// operations in an order in which they can run. It runs the operations of the graph one by one, not
/// attention as such, so that another graph gives other numbers.
[[nodiscard]] CudnnTable host_cudnn(
    const HostQueue& queue, const HostCudnnOptions& options = {},
    const std::shared_ptr<HostCudnnBooks>& books = std::make_shared<HostCudnnBooks>());

}  // namespace ppsim::test

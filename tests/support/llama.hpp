#pragma once

#include "ppsim/workload/analytic.hpp"

namespace ppsim::test {

/// Llama 3 70B on eight nodes of eight GPUs, in four stages and two replicas.
inline Workload llama() {
  return {model_from_name("llama3-70b").value(), cluster_from_name("dgx-h100", 8).value(),
          Parallelism{.tensor = 8, .pipeline = 4, .data = 2, .global_batch_size = 128}};
}

}  // namespace ppsim::test

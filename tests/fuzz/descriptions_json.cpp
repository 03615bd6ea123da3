// Descriptions of models (Hugging Face config.json, NAME:key=value) and clusters (JSON, NCCL's topology). The
// first byte picks the reader.

#include "fuzz.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/model.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = ppsim::fuzz::text_of(data + 1, size - 1);
  if (data[0] % 4 == 3) {
    const auto model = ppsim::model_from_config_json(text, "config.json");
    if (ppsim::fuzz::read(model)) {
      ppsim::fuzz::require(ppsim::parameter_count(*model) > 0, "a model has parameters");
    }
  } else if (data[0] % 4 == 0) {
    ppsim::fuzz::read(ppsim::cluster_from_json(text, "cluster.json", 1 + data[0] % 7));
  } else if (data[0] % 4 == 2) {
    ppsim::fuzz::read(ppsim::cluster_from_topology(text, "node.xml", 1 + data[0] % 7));
  } else {
    ppsim::fuzz::read(ppsim::model_from_name(text));
  }
  return 0;
}

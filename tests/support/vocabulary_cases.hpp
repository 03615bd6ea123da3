#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "ppsim/schedules/registry.hpp"
#include "support/gradient_assembly.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test {

/// Several sequences in a microbatch, and a vocabulary that no number of ranks divides.
[[nodiscard]] inline TransformerConfig vocabulary_transformer(Arithmetic arithmetic) {
  TransformerConfig config = small_transformer(5, arithmetic);
  config.vocab = 23;
  config.microbatch_size = 2;
  return config;
}

/// A schedule with the vocabulary in shards.
struct VocabularyCase {
  const char* name;
  const char* input;
  int ranks;
  int microbatches;
  UnitCosts costs = {};
};
std::ostream& operator<<(std::ostream& out, const VocabularyCase& one);

/// Both schedules, with all and with half of the vocabulary in shards.
[[nodiscard]] std::vector<VocabularyCase> vocabulary_cases();
[[nodiscard]] Schedule schedule_of(const VocabularyCase& one);

/// The same rows with I and W in the place of every B.
[[nodiscard]] Schedule with_split_backward(const Schedule& schedule);

/// The gradients of a case, put together.
template <class T>
[[nodiscard]] Gradients<T> in_shards(const TransformerConfig& config, const std::vector<BlockGradients>& run,
                                     const VocabularyCase& one) {
  const bool sharded = std::string(one.input) == "sharded";
  GradientAssembly<T> assembly(config);
  assembly.add_chain(run, one.ranks, !sharded, false);
  assembly.add_head_shards(run, one.ranks, one.ranks);
  if (sharded) assembly.add_embedding_shards(run, 2 * one.ranks, one.ranks);
  return assembly.all();
}
/// Those of 1F1B on as many ranks.
template <class T>
[[nodiscard]] Gradients<T> in_one(const TransformerConfig& config, const std::vector<BlockGradients>& run,
                                  const VocabularyCase& one) {
  GradientAssembly<T> assembly(config);
  assembly.add_chain(run, one.ranks, true, true);
  return assembly.all();
}

}  // namespace ppsim::test

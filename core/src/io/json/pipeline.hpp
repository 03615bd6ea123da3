#pragma once

#include <nlohmann/json.hpp>

#include "file.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// The pipeline without what is as by default.
[[nodiscard]] nlohmann::ordered_json pipeline_json(const Pipeline& pipeline);

/// The pipeline under the key "pipeline".
/// Requires: the schema accepts the file.
/// Errors: bad_file listing what Pipeline::make objects to.
[[nodiscard]] Expected<Pipeline> read_pipeline(const JsonFile& file);

/// Ids as numbers and back.
template <class Ids>
[[nodiscard]] nlohmann::ordered_json ids_json(const Ids& ids) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& id : ids) array.push_back(id.value());
  return array;
}
template <class Id>
[[nodiscard]] std::vector<Id> read_ids(const nlohmann::json& array) {
  std::vector<Id> ids;
  for (const auto& number : array) ids.emplace_back(number.get<std::int32_t>());
  return ids;
}

}  // namespace ppsim

#pragma once

#include "hugging_face/config_keys.hpp"
#include "hugging_face/model_types.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::workload {

/// Sets the window of attention. Requires: `model.layers` is read. Errors, kept by `keys`: layers that do not
/// repeat as is_windowed has them, and kinds of attention that a description cannot hold.
void read_window(ConfigKeys& keys, const ModelType& type, ModelDescription& model);

/// Sets experts, their widths and the dense layers before them. Requires: `model.layers` and `model.ffn` are
/// read. Errors, kept by `keys`: dense layers after layers with experts, shared experts that are no multiple
/// of the others.
void read_experts(ConfigKeys& keys, const ModelType& type, ModelDescription& model);

}  // namespace ppsim::workload

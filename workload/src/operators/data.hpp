#pragma once

#include <string_view>

namespace ppsim::workload {

/// The files of workload/data, as the library carries them.
[[nodiscard]] std::string_view products_csv();
[[nodiscard]] std::string_view attention_csv();
[[nodiscard]] std::string_view collectives_csv();

}  // namespace ppsim::workload

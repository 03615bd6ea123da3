#include "ppsim/planner/algorithms_file.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/json/file.hpp"
#include "io/json/layout.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "ppsim-algorithms";

PinnedAlgorithm algorithm_of(const nlohmann::json& entry) {
  return {entry.at("product").get<std::string>(), entry.at("multiprocessors").get<int>(),
          entry.at("algorithm").get<std::string>(), entry.value("ns", Nanoseconds{0}),
          entry.value("first_ns", Nanoseconds{0})};
}

}  // namespace

std::string to_json(const Algorithms& algorithms) {
  auto products = ordered_json::array();
  for (const PinnedAlgorithm& one : algorithms.products) {
    products.push_back({{"product", one.product},
                        {"multiprocessors", one.multiprocessors},
                        {"algorithm", one.algorithm},
                        {"ns", one.ns},
                        {"first_ns", one.first_ns}});
  }
  return laid_out({{"format", kFormat},
                   {"version", 1},
                   {"device", algorithms.device},
                   {"library", algorithms.library},
                   {"products", std::move(products)}});
}

Expected<Algorithms> algorithms_from_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_RETURN_IF_ERROR(parsed.format({kFormat}));
  PPSIM_RETURN_IF_ERROR(parsed.validate("algorithms"));
  const nlohmann::json& root = parsed.root();
  Algorithms result{root.at("device").get<std::string>(), root.at("library").get<std::string>(), {}};
  for (const nlohmann::json& entry : root.at("products")) {
    PinnedAlgorithm one = algorithm_of(entry);
    if (result.find(one.product, one.multiprocessors) != nullptr) {
      return parsed.error_at({"products", std::to_string(result.products.size()), "product"},
                             "a product given twice for one number of multiprocessors", one.product,
                             "each once");
    }
    result.products.push_back(std::move(one));
  }
  return result;
}

Expected<AlgorithmsFile> AlgorithmsFile::open(const std::string& path) {
  AlgorithmsFile file;
  file.path_ = path;
  if (!std::filesystem::exists(path)) {
    PPSIM_RETURN_IF_ERROR(check_writable(path));
    return file;
  }
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(path));
  PPSIM_ASSIGN_OR_RETURN(file.algorithms_, algorithms_from_json(text, path));
  file.read_ = file.algorithms_.products.size();
  return file;
}

Expected<void> AlgorithmsFile::keep() {
  if (algorithms_.products.size() == read_) return {};
  return write_text_file(path_, to_json(algorithms_));
}

std::string AlgorithmsFile::text() const {
  const std::size_t timed = algorithms_.products.size() - read_;
  return std::to_string(algorithms_.products.size()) + " products by the algorithms of " + path_ +
         (timed == 0 ? "" : ", " + std::to_string(timed) + " of them timed in this run");
}

}  // namespace ppsim::planner

#include <nlohmann/json.hpp>

#include "json_file.hpp"
#include "json_layout.hpp"
#include "ppsim/core/json.hpp"

namespace ppsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "ppsim-certificate";

ordered_json capabilities_json(const TransportCapabilities& capabilities) {
  auto object = ordered_json::object();
  if (capabilities.credits) object["credits"] = *capabilities.credits;
  if (capabilities.residency) object["residency"] = *capabilities.residency;
  if (capabilities.issue_blocks) object["issue_blocks"] = true;
  if (capabilities.captures_graphs) object["captures_graphs"] = true;
  return object;
}

TransportCapabilities read_capabilities(const json& object) {
  const auto limit = [&](const char* key) {
    return object.contains(key) ? std::optional(object.at(key).get<int>()) : std::nullopt;
  };
  return {limit("credits"), limit("residency"), object.value("issue_blocks", false),
          object.value("captures_graphs", false)};
}

ordered_json witness_json(const MemoryWitness& witness) {
  auto reuse = ordered_json::array();
  for (const Reuse& item : witness.reuse) {
    reuse.push_back({{"earlier", item.earlier}, {"later", item.later}, {"bytes", item.bytes}});
  }
  return {{"rank", witness.rank.value()}, {"bytes", witness.bytes}, {"reuse", std::move(reuse)}};
}

MemoryWitness read_witness(const json& object) {
  MemoryWitness witness{RankId(object.at("rank").get<int>()), object.at("bytes").get<Bytes>(), {}};
  for (const json& item : object.value("reuse", json::array())) {
    witness.reuse.push_back({item.at("earlier").get<std::uint32_t>(), item.at("later").get<std::uint32_t>(),
                             item.at("bytes").get<Bytes>()});
  }
  return witness;
}

}  // namespace

std::string to_json(const Certificate& certificate) {
  ordered_json object = {{"format", kFormat}, {"version", 1}, {"program_hash", certificate.program_hash}};
  if (!certificate.sizes_hash.empty()) object["sizes_hash"] = certificate.sizes_hash;
  object["capabilities_hash"] = certificate.capabilities_hash;
  object["capabilities"] = capabilities_json(certificate.capabilities);
  object["order"] = certificate.order;
  if (!certificate.memory.empty()) {
    for (const MemoryWitness& witness : certificate.memory) object["memory"].push_back(witness_json(witness));
  }
  return laid_out(object);
}

Expected<Certificate> certificate_from_json(std::string_view text, const std::string& file) {
  const auto parsed = JsonFile::parse(text, file);
  if (!parsed) return tl::unexpected(parsed.error());
  if (auto format = parsed->format({kFormat}); !format) return tl::unexpected(format.error());
  if (auto valid = parsed->validate("certificate"); !valid) return tl::unexpected(valid.error());
  const json& root = parsed->root();
  Certificate certificate;
  certificate.program_hash = root.at("program_hash").get<std::string>();
  certificate.sizes_hash = root.value("sizes_hash", "");
  certificate.capabilities_hash = root.at("capabilities_hash").get<std::string>();
  certificate.capabilities = read_capabilities(root.at("capabilities"));
  certificate.order = root.at("order").get<std::vector<std::uint32_t>>();
  for (const json& witness : root.value("memory", json::array())) {
    certificate.memory.push_back(read_witness(witness));
  }
  return certificate;
}

}  // namespace ppsim

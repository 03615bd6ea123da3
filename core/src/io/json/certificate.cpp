#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "file.hpp"
#include "io/action_scan.hpp"
#include "layout.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kCertificateFormat = "ppsim-certificate";
constexpr int kVersion = 3;
constexpr int kUnordered = 2;  ///< the same, from before launches could be ordered: none were

constexpr std::array<const char*, 3> kLaunchOrders = {"none", "start", "completion"};

ordered_json chain_json(const LaunchChain& chain) {
  auto object = ordered_json::object();
  object["order"] = kLaunchOrders.at(static_cast<std::size_t>(chain.order));
  if (chain.compute) object["compute"] = true;
  if (chain.everything) object["everything"] = true;
  return object;
}

LaunchChain read_chain(const json& capabilities, const char* key) {
  if (!capabilities.contains(key)) return {};
  const json& object = capabilities.at(key);
  const auto order = std::ranges::find(kLaunchOrders, object.at("order").get<std::string>());
  return {static_cast<LaunchOrder>(order - kLaunchOrders.begin()), object.value("compute", false),
          object.value("everything", false)};
}

ordered_json capabilities_json(const TransportCapabilities& capabilities) {
  auto object = ordered_json::object();
  if (capabilities.credits) object["credits"] = *capabilities.credits;
  if (capabilities.eager) object["eager"] = true;
  if (capabilities.residency) object["residency"] = *capabilities.residency;
  if (capabilities.issue_blocks) object["issue_blocks"] = true;
  if (capabilities.captures_graphs) object["captures_graphs"] = true;
  if (capabilities.launches != LaunchChain()) object["launches"] = chain_json(capabilities.launches);
  if (capabilities.guaranteed_launches != LaunchChain())
    object["guaranteed_launches"] = chain_json(capabilities.guaranteed_launches);
  return object;
}

TransportCapabilities read_capabilities(const json& object) {
  const auto limit = [&](const char* key) {
    return object.contains(key) ? std::optional(object.at(key).get<int>()) : std::nullopt;
  };
  return {limit("credits"),
          object.value("eager", false),
          limit("residency"),
          object.value("issue_blocks", false),
          object.value("captures_graphs", false),
          read_chain(object, "launches"),
          read_chain(object, "guaranteed_launches")};
}

/// Numbers parted by blanks, in strings: they are read many times faster than as values of JSON.
template <class Range, class NumbersOf>
ordered_json strings_of(const Range& items, NumbersOf numbers_of) {
  constexpr std::size_t kLongest = 1000;
  auto strings = ordered_json::array();
  std::string string;
  for (const auto& item : items) {
    for (const std::int64_t number : numbers_of(item)) {
      if (!string.empty()) string += ' ';
      string += std::to_string(number);
    }
    if (string.size() > kLongest) strings.push_back(std::exchange(string, {}));
  }
  if (!string.empty()) strings.push_back(std::move(string));
  return strings;
}

ordered_json witness_json(const MemoryWitness& witness) {
  return {{"rank", witness.rank.value()},
          {"bytes", witness.bytes},
          {"reuse", strings_of(witness.reuse, [](const Reuse& item) {
             return std::array<std::int64_t, 3>{item.earlier, item.later, item.bytes};
           })}};
}

/// Takes a number from the start of `text`, and the blank after it.
/// Returns: nothing where there is no number of this type.
template <class Number>
std::optional<Number> take_listed_number(std::string_view& text) {
  const auto number = take_leading_number<Number>(text);
  if (!number || *number < 0) return std::nullopt;
  if (!text.empty() && text.front() != ' ') return std::nullopt;
  if (text.size() > 1) text.remove_prefix(1);
  return number;
}

/// Keys that the version before ordered launches did not have.
Expected<void> check_unordered(const JsonFile& file) {
  const json& root = file.root();
  if (root.at("version") != kUnordered) return {};
  const auto unknown = [&](const JsonPath& path) {
    return file.error_at(path, "an unknown key", path.back(),
                         "none of eager sends or the order of launches in version 2; it is of version 3");
  };
  if (root.contains("transport")) return unknown({"transport"});
  for (const char* key : {"launches", "guaranteed_launches", "eager"}) {
    if (root.at("capabilities").contains(key)) return unknown({"capabilities", key});
  }
  return {};
}

class CertificateReader {
 public:
  explicit CertificateReader(const JsonFile& file) : file_(file), root_(file.root()) {}

  Expected<Certificate> read() {
    certificate_.transport = root_.value("transport", "");
    certificate_.program_hash = root_.at("program_hash").get<std::string>();
    certificate_.sizes_hash = root_.value("sizes_hash", "");
    certificate_.capabilities_hash = root_.at("capabilities_hash").get<std::string>();
    certificate_.capabilities = read_capabilities(root_.at("capabilities"));
    certificate_.properties = root_.at("properties").get<std::vector<std::string>>();
    PPSIM_RETURN_IF_ERROR(for_each_item({"order"}, root_.at("order"), [&](std::string_view& text) {
      const auto item = take_listed_number<std::uint32_t>(text);
      if (item) certificate_.order.push_back(*item);
      return item.has_value();
    }));
    const auto memory = root_.find("memory");
    for (std::size_t i = 0; memory != root_.end() && i < memory->size(); ++i) {
      PPSIM_RETURN_IF_ERROR(read_witness(i, memory->at(i)));
    }
    return std::move(certificate_);
  }

 private:
  Expected<void> read_witness(std::size_t index, const json& object) {
    MemoryWitness& witness = certificate_.memory.emplace_back(
        MemoryWitness{RankId(object.at("rank").get<int>()), object.at("bytes").get<Bytes>(), {}});
    const auto strings = object.find("reuse");
    if (strings == object.end()) return {};
    return for_each_item({"memory", std::to_string(index), "reuse"}, *strings, [&](std::string_view& text) {
      const auto earlier = take_listed_number<std::uint32_t>(text);
      const auto later = earlier ? take_listed_number<std::uint32_t>(text) : std::nullopt;
      const auto bytes = later ? take_listed_number<Bytes>(text) : std::nullopt;
      if (bytes) witness.reuse.push_back({*earlier, *later, *bytes});
      return bytes.has_value();
    });
  }

  /// Calls take(rest of a string), which takes one item from it and says whether there was one.
  template <class Take>
  Expected<void> for_each_item(JsonPath path, const json& strings, Take take) const {
    for (std::size_t i = 0; i < strings.size(); ++i) {
      std::string_view text = strings[i].get_ref<const std::string&>();
      while (!text.empty()) {
        const std::string_view rest = text;
        if (take(text)) continue;
        path.push_back(std::to_string(i));
        return file_.error_at(path, "a string that is no list of numbers", "\"" + printable(rest) + "\"",
                              path.front() == "order" ? "items of the order, parted by blanks"
                                                      : "earlier, later and bytes, parted by blanks");
      }
    }
    return {};
  }

  const JsonFile& file_;
  const json& root_;
  Certificate certificate_;
};

}  // namespace

std::string to_json(const Certificate& certificate) {
  ordered_json object = {
      {"format", kCertificateFormat}, {"version", kVersion}, {"program_hash", certificate.program_hash}};
  if (!certificate.transport.empty()) object["transport"] = certificate.transport;
  if (!certificate.sizes_hash.empty()) object["sizes_hash"] = certificate.sizes_hash;
  object["capabilities_hash"] = certificate.capabilities_hash;
  object["capabilities"] = capabilities_json(certificate.capabilities);
  object["properties"] = certificate.properties;
  object["order"] =
      strings_of(certificate.order, [](std::uint32_t item) { return std::array<std::int64_t, 1>{item}; });
  for (const MemoryWitness& witness : certificate.memory) object["memory"].push_back(witness_json(witness));
  return laid_out(object);
}

Expected<Certificate> certificate_from_json(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  if (auto format = parsed.format({kCertificateFormat}, {kUnordered, kVersion}); !format) {
    Error error = format.error();
    const json& root = parsed.root();
    if (root.is_object() && root.value("format", json()) == kCertificateFormat)
      error.message += ": verify the Program again to make a new one";
    return tl::unexpected(std::move(error));
  }
  PPSIM_RETURN_IF_ERROR(parsed.validate("certificate"));
  PPSIM_RETURN_IF_ERROR(check_unordered(parsed));
  return CertificateReader(parsed).read();
}

}  // namespace ppsim

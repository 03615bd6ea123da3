#include "schema.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "io/action_scan.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

using nlohmann::json;

/// The keywords of draft 07 that the published schemas use; the first line has those that decide nothing.
constexpr std::string_view kKeywords =
    " $schema title description definitions"
    " $ref type const enum minimum maximum exclusiveMinimum items minItems maxItems"
    " properties required additionalProperties dependencies ";

/// A schema with another keyword would accept what it forbids.
void require_known_keywords(const json& rule) {
  for (const auto& entry : rule.items()) {
    PPSIM_CHECK(kKeywords.find(" " + entry.key() + " ") != std::string_view::npos, entry.key());
  }
  for (const char* rules : {"properties", "definitions"}) {
    if (!rule.contains(rules)) continue;
    for (const json& inner : rule.at(rules)) require_known_keywords(inner);
  }
  if (rule.contains("items")) require_known_keywords(rule.at("items"));
}

std::string keys_text(const json& properties) {
  std::string text;
  for (const auto& entry : properties.items()) text += (text.empty() ? "" : ", ") + entry.key();
  return text;
}

std::string choices_text(const json& choices) {
  std::string text;
  for (const json& choice : choices) text += (text.empty() ? "one of " : ", ") + choice.dump();
  return text;
}

std::string expected_text(const json& rule);

/// A value of one of the types.
std::string types_text(const json& rule) {
  std::string text;
  for (const json& type : rule.at("type")) {
    json one = rule;
    one["type"] = type;
    text += (text.empty() ? "" : " or ") + expected_text(one);
  }
  return text;
}

std::string expected_text(const json& rule) {
  if (rule.contains("const")) return rule.at("const").dump();
  if (rule.contains("enum")) return choices_text(rule.at("enum"));
  if (rule.contains("type") && rule.at("type").is_array()) return types_text(rule);
  const std::string type = rule.value("type", "value");
  if (type == "array" && rule.contains("minItems")) return "an array of " + rule.at("minItems").dump();
  if (type == "array") return "an array";
  if (type == "object") return "an object";
  if (rule.contains("exclusiveMinimum")) return "a " + type + " above " + rule.at("exclusiveMinimum").dump();
  std::string value = type == "integer" ? "a whole number" : "a " + type;
  if (!rule.contains("minimum") || (type != "integer" && type != "number")) return value;
  return value + " in [" + rule.at("minimum").dump() + ", " + rule.at("maximum").dump() + "]";
}

bool is_of_type(const json& value, const json& type) {
  if (type.is_array()) {
    return std::ranges::any_of(type, [&](const json& choice) { return is_of_type(value, choice); });
  }
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  PPSIM_CHECK(type == "number", type.dump());
  return value.is_number();
}

/// Numbers that a signed integer of 64 bits cannot hold are in no range.
bool is_in_range(const json& value, const json& rule) {
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
    return !rule.contains("minimum") && !rule.contains("exclusiveMinimum");
  }
  return !(rule.contains("minimum") && value < rule.at("minimum")) &&
         !(rule.contains("maximum") && value > rule.at("maximum")) &&
         !(rule.contains("exclusiveMinimum") && value <= rule.at("exclusiveMinimum"));
}

/// Whether a value follows a rule, the values in it aside.
bool is_accepted(const json& value, const json& rule) {
  if (rule.contains("type") && !is_of_type(value, rule.at("type"))) return false;
  if (rule.contains("const") && value != rule.at("const")) return false;
  if (rule.contains("enum") && std::ranges::find(rule.at("enum"), value) == rule.at("enum").end())
    return false;
  if (value.is_number()) return is_in_range(value, rule);
  if (!value.is_array()) return true;
  return value.size() >= rule.value("minItems", std::size_t{0}) &&
         value.size() <= rule.value("maxItems", value.size());
}

/// Whether a key of the object is without one that has to accompany it.
bool lacks_dependency(const json& value, const json& rule) {
  if (!value.is_object() || !rule.contains("dependencies")) return false;
  for (const auto& [key, companions] : rule.at("dependencies").items()) {
    if (!value.contains(key)) continue;
    for (const json& companion : companions) {
      if (!value.contains(companion.get<std::string>())) return true;
    }
  }
  return false;
}

/// Checks documents against one schema and puts the first violation into words.
class SchemaChecker {
 public:
  explicit SchemaChecker(const json& schema) : schema_(schema) { require_known_keywords(schema); }

  /// Order: of the values in an array by index, of those in an object by key, each before what they are in;
  /// an object that lacks a dependency before what is in it.
  std::optional<SchemaViolation> violation(const json& value, const json& reference) const {
    const json& rule = resolved(reference);
    if (!lacks_dependency(value, rule)) {
      if (auto inner = inner_violation(value, rule)) return inner;
    }
    if (value.is_object() && rule.contains("properties")) return violation_of_object(value, rule);
    if (is_accepted(value, rule)) return std::nullopt;
    return SchemaViolation{{}, "a value that does not belong here", value_text(value), expected_text(rule)};
  }

 private:
  const json& resolved(const json& rule) const {
    const auto reference = rule.find("$ref");
    if (reference == rule.end()) return rule;
    return schema_.at(json::json_pointer(reference->get<std::string>().substr(1)));
  }

  std::optional<SchemaViolation> inner_violation(const json& value, const json& rule) const {
    if (value.is_array() && rule.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (auto found = violation(value[i], rule.at("items")))
          return below(std::to_string(i), std::move(*found));
      }
    }
    if (value.is_object() && rule.contains("properties")) {
      for (const auto& [key, inner] : rule.at("properties").items()) {
        if (!value.contains(key)) continue;
        if (auto found = violation(value.at(key), inner)) return below(key, std::move(*found));
      }
    }
    return std::nullopt;
  }

  static SchemaViolation below(const std::string& step, SchemaViolation violation) {
    violation.path.insert(violation.path.begin(), step);
    return violation;
  }

  static std::optional<SchemaViolation> violation_of_object(const json& value, const json& rule) {
    const json& properties = rule.at("properties");
    for (const auto& entry : value.items()) {
      if (properties.contains(entry.key()) || rule.value("additionalProperties", true)) continue;
      return SchemaViolation{
          {entry.key()}, "an unknown key", printable(entry.key()), "one of " + keys_text(properties)};
    }
    for (const json& key : rule.value("required", json::array())) {
      const auto name = key.get<std::string>();
      if (!value.contains(name)) return SchemaViolation{{}, "a missing key", "", "\"" + name + "\""};
    }
    if (!lacks_dependency(value, rule) && is_accepted(value, rule)) return std::nullopt;
    return SchemaViolation{
        {}, "an object that does not belong here", value_text(value), "an object of the schema"};
  }

  const json& schema_;
};

}  // namespace

std::string value_text(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

std::optional<SchemaViolation> find_violation(const json& document, std::string_view schema_name) {
  const json schema = json::parse(json_schema(schema_name));
  return SchemaChecker(schema).violation(document, schema);
}

}  // namespace ppsim

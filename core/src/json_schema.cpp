#include "json_schema.hpp"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "action_scan.hpp"
#include "ppsim/core/json.hpp"

namespace ppsim {
namespace {

using nlohmann::json;

/// valijson's context, "<root>" and "[key]" or "[index]", as a path.
JsonPath path_of(const std::vector<std::string>& context) {
  JsonPath path;
  for (std::size_t i = 1; i < context.size(); ++i)
    path.push_back(context[i].substr(1, context[i].size() - 2));
  return path;
}

const json& member(const json& value, const std::string& step) {
  return value.is_array() ? value.at(std::stoul(step)) : value.at(step);
}

std::string dump(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

/// Puts the verdict of valijson into words; it knows the keywords that the schemas of ppsim use.
class Explanation {
 public:
  Explanation(const json& schema, JsonPath path) : schema_(schema), path_(std::move(path)) {}

  SchemaViolation of(const json& document) {
    const json* value = &document;
    const json* rule = &resolved(schema_);
    for (const std::string& step : path_) {
      value = &member(*value, step);
      rule = &resolved(rule->contains("items") ? rule->at("items") : rule->at("properties").at(step));
    }
    if (value->is_object() && rule->contains("properties")) return of_object(*value, *rule);
    return {path_, "a value that does not belong here", dump(*value), expected_text(*rule)};
  }

 private:
  const json& resolved(const json& rule) const {
    const auto reference = rule.find("$ref");
    if (reference == rule.end()) return rule;
    return schema_.at(json::json_pointer(reference->get<std::string>().substr(1)));
  }

  SchemaViolation of_object(const json& value, const json& rule) const {
    const json& properties = rule.at("properties");
    for (const auto& entry : value.items()) {
      if (properties.contains(entry.key())) continue;
      JsonPath path = path_;
      path.push_back(entry.key());
      return {std::move(path), "an unknown key", printable(entry.key()), "one of " + keys_text(properties)};
    }
    for (const json& key : rule.value("required", json::array())) {
      const auto name = key.get<std::string>();
      if (!value.contains(name)) return {path_, "a missing key", "", "\"" + name + "\""};
    }
    return {path_, "an object that does not belong here", dump(value), "an object of the schema"};
  }

  static std::string keys_text(const json& properties) {
    std::string text;
    for (const auto& entry : properties.items()) text += (text.empty() ? "" : ", ") + entry.key();
    return text;
  }

  static std::string types_text(const json& types) {
    std::string text;
    for (const json& type : types) text += (text.empty() ? "one of " : ", ") + type.get<std::string>();
    return text;
  }

  static std::string expected_text(const json& rule) {
    if (const auto constant = rule.find("const"); constant != rule.end()) return constant->dump();
    if (const auto choices = rule.find("enum"); choices != rule.end()) {
      std::string text;
      for (const json& choice : *choices) text += (text.empty() ? "one of " : ", ") + choice.dump();
      return text;
    }
    if (rule.contains("type") && rule.at("type").is_array()) return types_text(rule.at("type"));
    const std::string type = rule.value("type", "value");
    if (type == "array" && rule.contains("minItems")) return "an array of " + rule.at("minItems").dump();
    if (type == "array") return "an array";
    if (type == "object") return "an object";
    if (rule.contains("exclusiveMinimum"))
      return "a " + type + " above " + rule.at("exclusiveMinimum").dump();
    if (type != "integer") return "a " + type;
    return "a whole number in [" + rule.at("minimum").dump() + ", " + rule.at("maximum").dump() + "]";
  }

  const json& schema_;
  JsonPath path_;
};

}  // namespace

std::optional<SchemaViolation> find_violation(const json& document, std::string_view schema_name) {
  const json rules = json::parse(json_schema(schema_name));
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(rules), schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results))
    return std::nullopt;
  valijson::ValidationResults::Error first;
  results.popError(first);
  return Explanation(rules, path_of(first.context)).of(document);
}

}  // namespace ppsim

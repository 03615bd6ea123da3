#include "hugging_face/config_keys.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace ppsim::workload {

using nlohmann::json;

ConfigKeys::ConfigKeys(const json& object, std::string file) : object_(object), file_(std::move(file)) {}

bool ConfigKeys::has(const char* key) const { return object_.contains(key); }

const json* ConfigKeys::value(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigKeys::says_something(const char* key) const {
  const json* found = value(key);
  if (found == nullptr || *found == json(false)) return false;
  if (found->is_number()) return *found != json(0);
  return found->is_string() ? !found->get_ref<const std::string&>().empty() : !found->empty();
}

std::string ConfigKeys::found(const char* key) const {
  if (!has(key)) return "nothing";
  return object_.at(key).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::optional<std::int64_t> ConfigKeys::whole(std::initializer_list<const char*> names) {
  std::optional<std::int64_t> first;
  for (const char* name : names) {
    const json* found = value(name);
    if (found == nullptr) continue;
    if (!found->is_number_integer()) {
      refuse_type(name, "a whole number");
      continue;
    }
    const auto number = found->get<std::int64_t>();
    if (first && *first != number)
      refuse(name, "differs from another name of it", this->found(name), std::to_string(*first));
    first = first.value_or(number);
  }
  return first;
}

std::int64_t ConfigKeys::needed(std::initializer_list<const char*> names) {
  const auto number = whole(names);
  if (!number) refuse_type(*names.begin(), "a whole number");
  return number.value_or(1);
}

std::int64_t ConfigKeys::needed_or_null(const char* key) {
  if (!has(key)) refuse_type(key, "a whole number, or null where there is none");
  return whole({key}).value_or(0);
}

bool ConfigKeys::flag(const char* key, bool otherwise) {
  const json* found = value(key);
  if (found == nullptr) return otherwise;
  if (found->is_boolean()) return found->get<bool>();
  refuse_type(key, "true or false");
  return otherwise;
}

std::string ConfigKeys::text(const char* key, const std::string& otherwise) {
  const json* found = value(key);
  if (found == nullptr) return otherwise;
  if (found->is_string()) return found->get<std::string>();
  refuse_type(key, "a string");
  return otherwise;
}

std::optional<std::vector<std::string>> ConfigKeys::texts(const char* key) {
  const json* found = value(key);
  if (found == nullptr) return std::nullopt;
  std::vector<std::string> listed;
  if (!found->is_array()) refuse_type(key, "a list of strings");
  for (const json& element : *found) {
    if (!element.is_string()) {
      refuse_type(key, "a list of strings");
      break;
    }
    listed.push_back(element.get<std::string>());
  }
  return listed;
}

std::vector<std::int64_t> ConfigKeys::wholes(const char* key) {
  std::vector<std::int64_t> listed;
  const json* found = value(key);
  if (found == nullptr) return listed;
  if (!found->is_array()) refuse_type(key, "a list of whole numbers");
  for (const json& element : *found) {
    if (!element.is_number_integer()) {
      refuse_type(key, "a list of whole numbers");
      break;
    }
    listed.push_back(element.get<std::int64_t>());
  }
  return listed;
}

void ConfigKeys::refuse(const char* key, const std::string& message, std::string found,
                        std::string expected) {
  if (error_) return;
  error_ = Error{ErrorCode::bad_file,
                 std::string("key \"") + key + "\" " + message,
                 {.file = file_, .found = std::move(found), .expected = std::move(expected)}};
}

void ConfigKeys::refuse_type(const char* key, std::string expected) {
  refuse(key, "cannot be read", found(key), std::move(expected));
}

}  // namespace ppsim::workload

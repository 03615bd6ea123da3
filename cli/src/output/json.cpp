#include "json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ppsim::cli {
namespace {

using Node = nlohmann::ordered_json;

Node node_of(const Json& json);

Node node_of(const Json::Array& items) {
  Node node = Node::array();
  for (const Json& item : items) node.push_back(node_of(item));
  return node;
}

Node node_of(const Json::Object& members) {
  Node node = Node::object();
  for (const Json::Member& member : members) node.emplace(member.name, node_of(member.value));
  return node;
}

template <class Scalar>
Node node_of(const Scalar& value) {
  return value;
}

Node node_of(const Json& json) {
  return std::visit([](const auto& value) { return node_of(value); }, json.value());
}

}  // namespace

Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(bool value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}
Json::Json(Number, std::int64_t value) : value_(value) {}
Json::Json(Number, std::uint64_t value) : value_(value) {}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array() {
  Json json;
  json.value_ = Array();
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

Json& Json::operator[](std::string_view name) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Object();
  auto& members = std::get<Object>(value_);
  const auto found = std::ranges::find(members, name, &Member::name);
  if (found != members.end()) return found->value;
  members.push_back({std::string(name), Json()});
  return members.back().value;
}

void Json::push_back(Json item) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Array();
  std::get<Array>(value_).push_back(std::move(item));
}

void Json::update(const Json& object) {
  for (const Member& member : std::get<Object>(object.value_)) (*this)[member.name] = member.value;
}

void Json::erase(std::string_view name) {
  std::erase_if(std::get<Object>(value_), [&](const Member& member) { return member.name == name; });
}

std::string Json::dump(int indent) const {
  return node_of(*this).dump(indent, ' ', false, Node::error_handler_t::replace);
}

}  // namespace ppsim::cli

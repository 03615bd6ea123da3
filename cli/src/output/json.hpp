#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace ppsim::cli {

/// A JSON value to print. Objects keep the order in which their members were added; text that is no UTF-8
/// shows with replacement characters, and a number that is not finite is null.
///
///     Json object = {{"schedule", name}, {"ranks", 4}};
///     object["makespan_ns"] = makespan;
class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  using Value =
      std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  Json();
  Json(std::nullptr_t);
  Json(bool value);
  Json(double value);
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  template <std::integral T>
  Json(T value) : Json(Number(), static_cast<Widest<T>>(value)) {}
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const T& item : items) push_back(item);
  }
  Json(std::initializer_list<Member> members);

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  [[nodiscard]] static Json array();
  [[nodiscard]] static Json object();

  /// The member of this name, added where it is missing. Requires: an object or null, which becomes one.
  Json& operator[](std::string_view name);
  /// Requires: an array or null, which becomes one.
  void push_back(Json item);
  /// Sets every member of an object.
  void update(const Json& object);
  void erase(std::string_view name);

  [[nodiscard]] const Value& value() const { return value_; }
  /// On one line, or indented by so much.
  [[nodiscard]] std::string dump(int indent = -1) const;

 private:
  struct Number {};
  template <std::integral T>
  using Widest = std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>;
  Json(Number, std::int64_t value);
  Json(Number, std::uint64_t value);

  Value value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

}  // namespace ppsim::cli

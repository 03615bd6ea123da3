#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::workload {

/// The keys of a `config.json`. Reads on after an error and remembers the first. Null is as good as missing
/// unless a function says otherwise.
class ConfigKeys {
 public:
  /// Requires: `object` is an object and outlives this.
  ConfigKeys(const nlohmann::json& object, std::string file);

  [[nodiscard]] bool has(const char* key) const;
  /// Whether the key has a value other than null, false, 0, "", [] and {}.
  [[nodiscard]] bool says_something(const char* key) const;
  /// The value as JSON, or "nothing".
  [[nodiscard]] std::string found(const char* key) const;

  /// The number that one of these names of it has; two that differ are refused.
  std::optional<std::int64_t> whole(std::initializer_list<const char*> names);
  /// The same, refused where it is missing.
  std::int64_t needed(std::initializer_list<const char*> names);
  /// Null is 0; a missing key is refused.
  std::int64_t needed_or_null(const char* key);
  bool flag(const char* key, bool otherwise);
  std::string text(const char* key, const std::string& otherwise);
  std::optional<std::vector<std::string>> texts(const char* key);
  std::vector<std::int64_t> wholes(const char* key);

  /// Remembers an error about this key: `key "KEY" MESSAGE`.
  void refuse(const char* key, const std::string& message, std::string found, std::string expected);
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  [[nodiscard]] const nlohmann::json* value(const char* key) const;
  void refuse_type(const char* key, std::string expected);

  const nlohmann::json& object_;
  std::string file_;
  std::optional<Error> error_;
};

}  // namespace ppsim::workload

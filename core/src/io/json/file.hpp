#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "position.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim {

/// A JSON file, with what it takes to say where in it a mistake is.
class JsonFile {
 public:
  /// Errors: bad_file for broken JSON and doubled keys.
  [[nodiscard]] static Expected<JsonFile> parse(std::string_view text, const std::string& file);

  [[nodiscard]] const nlohmann::json& root() const { return root_; }

  /// The value of "format".
  /// Errors: bad_file unless it is one of `formats` and "version" is `version`.
  [[nodiscard]] Expected<std::string> format(const std::vector<std::string>& formats,
                                             const std::vector<int>& versions = {1}) const;

  /// Errors: bad_file for the first value that the published schema of this name does not accept.
  [[nodiscard]] Expected<void> validate(std::string_view schema_name) const;

  /// A bad_file error at a value; `path` may lead to what is missing.
  [[nodiscard]] tl::unexpected<Error> error_at(const JsonPath& path, std::string message, std::string found,
                                               std::string expected) const;
  /// The same error, about the value at `path`; a bad argument becomes a bad file.
  [[nodiscard]] tl::unexpected<Error> error_at(const JsonPath& path, Error error) const;

 private:
  std::string_view text_;
  std::string file_;
  nlohmann::json root_;
};

}  // namespace ppsim

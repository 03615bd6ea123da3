#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/planner/files.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

using Policy = std::optional<CommunicatorPolicy>;  ///< none: those of the file, or the default

/// One file under one policy.
struct Row {
  std::string file;
  Policy policy;
  Expected<VerifyAnswer> answer;

  [[nodiscard]] int exit() const { return answer ? answer->exit() : exit_code(answer.error().code); }
};

bool has_several_policies(const VerifyRequest& request) {
  return request.policy == "all" || request.policy.find(',') != std::string::npos;
}

/// A dangling link or a folder of such a name counts: that it cannot be read is an error in its row. Pipes
/// and devices do not, because a read from one may never return.
bool is_schedule_file(const std::filesystem::directory_entry& entry) {
  const std::string suffix = suffix_of(entry.path().string());
  std::error_code ignored;
  return !entry.is_other(ignored) && (suffix == ".csv" || suffix == ".json");
}

/// The .csv and .json files of a folder by name; another input as it is.
Expected<std::vector<std::string>> files_of(const std::string& input) {
  std::error_code failed;
  if (!std::filesystem::is_directory(input, failed) || names_schedule(input))
    return std::vector<std::string>{input};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(input, failed)) {
    if (is_schedule_file(entry)) files.push_back(entry.path().string());
  }
  if (failed) return make_error(ErrorCode::io, failed.message(), {.file = input});
  std::ranges::sort(files);
  if (!files.empty()) return files;
  return make_error(ErrorCode::bad_file, "a folder without schedules",
                    {.file = input, .found = "no such file", .expected = "files that end in .csv or .json"});
}

/// A file or NAME, or a folder that has none.
struct Input {
  std::string name;
  std::optional<Error> error;

  [[nodiscard]] bool is_name() const { return !error && !names_file(name); }
};

/// Beside others the row of a folder says what is wrong with it.
Expected<std::vector<Input>> inputs_of(const std::vector<std::string>& names) {
  std::vector<Input> inputs;
  for (const std::string& name : names) {
    const auto files = files_of(name);
    if (!files && names.size() == 1) return tl::unexpected(files.error());
    if (!files) inputs.push_back({name, files.error()});
    for (const std::string& file : files.value_or(std::vector<std::string>())) inputs.push_back({file, {}});
  }
  return inputs;
}

Expected<std::vector<Policy>> policies_of(const std::string& names) {
  if (names.empty()) return std::vector<Policy>{std::nullopt};
  std::vector<Policy> policies;
  std::istringstream items(names == "all" ? "per-rank,per-pair,per-edge,per-stage-edge" : names);
  for (std::string item; std::getline(items, item, ',');) {
    PPSIM_ASSIGN_OR_RETURN(const Policy policy, policy_of_list(item));
    if (std::ranges::find(policies, policy) != policies.end())
      return make_error(ErrorCode::bad_argument, "--communicators names a policy twice", {.found = names});
    policies.push_back(policy);
  }
  return policies;
}

std::string found_text(const VerifyRequest& request) {
  if (request.inputs.size() > 1) return std::to_string(request.inputs.size()) + " inputs";
  return has_several_policies(request) ? "--communicators " + request.policy : "a folder";
}

Expected<void> check_request(const VerifyRequest& request) {
  const bool plain = request.certificate.empty() && request.other.empty() && request.repair.empty();
  if (!request.all_microbatches && plain) return {};
  return make_error(
      ErrorCode::bad_argument,
      "--all-microbatches, --certificate, --repair and --never-slower-than are for one input under "
      "one policy of communicators",
      {.found = found_text(request), .expected = "one file or name, one policy or none"});
}

constexpr const char* kVerdicts[] = {"proved", "error", "refuted", "does not fit", "unknown"};

std::string verdict_text(int exit) {
  if (exit == kDone) return "proved";
  if (exit == kRefuted) return "refuted";
  if (exit == kDoesNotFit) return "does not fit";
  return exit == kUnknown ? "unknown" : "error";
}

std::string verdict_text(const Row& row) {
  const bool inference = row.answer && !trains(row.answer->program());
  return verdict_text(row.exit()) + (inference ? ", no backward" : "");
}

/// The refuted properties, else the unknown ones, or the error. One that is unknown because another is
/// refuted says nothing.
std::string reason_text(const Row& row) {
  if (!row.answer) return to_string(row.answer.error());
  std::string refuted;
  std::string unknown;
  for (const PropertyResult& result : row.answer->report.results) {
    if (std::holds_alternative<Proved>(result.verdict)) continue;
    std::string& text = std::holds_alternative<Refuted>(result.verdict) ? refuted : unknown;
    text += (text.empty() ? "" : ", ") + std::string(property_name(result.property));
  }
  if (row.answer->pool_above_limit()) refuted += (refuted.empty() ? "" : ", ") + std::string("pool");
  return refuted.empty() ? unknown : refuted;
}

/// The policy that was asked for, or assumed; a native Program has its own communicators.
Policy row_policy(const Row& row) {
  return row.policy || !row.answer ? row.policy : row.answer->communicators;
}

std::string policy_text(const Row& row) {
  const Policy policy = row_policy(row);
  if (policy) return std::string(policy_name(*policy));
  return row.answer ? "of the file" : "-";
}

Json row_json(const Row& row) {
  Json item = {{"file", row.file}};
  if (const Policy policy = row_policy(row)) item["communicators"] = policy_name(*policy);
  item["verdict"] = verdict_text(row.exit());
  item.update(row.answer ? report_json(*row.answer) : Json{{"error", error_json(row.answer.error())}});
  return item;
}

/// Rows as they come, so that of thousands only their summary stays.
class Table {
 public:
  explicit Table(bool json) : json_(json) {}

  void add(const Row& row) {
    ++counts_[row.exit()];
    if (json_) {
      results_.push_back(row_json(row));
    } else {
      lines_.push_back({row.file, policy_text(row), verdict_text(row), reason_text(row)});
    }
  }

  /// Returns: the exit code.
  int finish(const Output& output) const {
    if (json_) {
      output.print({{"results", results_}, {"counts", counts_json()}});
    } else {
      std::cout << table_text(lines_, Align::left) << '\n';
      for (const char* verdict : kVerdicts) {
        if (const int count = count_of(verdict); count != 0) std::cout << count << ' ' << verdict << '\n';
      }
    }
    std::set<int> codes;
    for (const auto& [exit, count] : counts_) codes.insert(exit);
    return first_code(codes);
  }

 private:
  [[nodiscard]] int count_of(std::string_view verdict) const {
    int sum = 0;
    for (const auto& [exit, count] : counts_) sum += verdict_text(exit) == verdict ? count : 0;
    return sum;
  }

  [[nodiscard]] Json counts_json() const {
    Json counts;
    for (const char* verdict : kVerdicts) counts[verdict] = count_of(verdict);
    return counts;
  }

  bool json_;
  Json results_ = Json::array();
  TextTable lines_ = {{"file", "communicators", "verdict", "not proved"}};
  std::map<int, int> counts_;
};

}  // namespace

Expected<CommunicatorPolicy> policy_of_list(const std::string& name) {
  auto policy = of_option(policy_from_name(name), "communicators", "--communicators");
  if (!policy) policy.error().place.expected += ", several or all";
  return policy;
}

bool is_many(const VerifyRequest& request) {
  std::error_code ignored;
  return request.inputs.size() > 1 || has_several_policies(request) ||
         (std::filesystem::is_directory(request.inputs.front(), ignored) &&
          !find_schedule(request.inputs.front()));
}

Expected<int> verify_many(const VerifyRequest& request, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_request(request));
  PPSIM_ASSIGN_OR_RETURN(const auto policies, policies_of(request.policy));
  PPSIM_ASSIGN_OR_RETURN(const auto inputs, inputs_of(request.inputs));
  const bool has_name = std::ranges::any_of(inputs, &Input::is_name);
  Table table(output.json);
  std::size_t done = 0;
  for (const Input& input : inputs) {
    VerifyRequest single = request;
    single.input.input = input.name;
    if (has_name && !input.is_name()) single.input.drop_parameters();  // those of a name beside it
    for (const Policy& policy : policies) {
      single.start = std::chrono::steady_clock::now();
      Row row{input.name, policy, input.error ? tl::unexpected(*input.error) : verify_input(single, policy)};
      if (row.answer) add_devices(single, *row.answer);
      table.add(row);
      annotate(single, row.answer, output);
      output.done(++done, inputs.size() * policies.size());
    }
  }
  return table.finish(output);
}

}  // namespace ppsim::cli

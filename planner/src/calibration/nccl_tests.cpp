#include "ppsim/planner/calibration/nccl_tests.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "io/json/file.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::planner {
namespace {

using nlohmann::json;

constexpr const char* kOutputExpected =
    "what all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf prints, or "
    "its "
    "JSON (-J)";

tl::unexpected<Error> no_output(const std::string& file, int line, std::string why, std::string found) {
  return make_error(ErrorCode::bad_file, std::move(why),
                    {.file = file, .row = line, .found = std::move(found), .expected = kOutputExpected});
}

/// Where a rank runs.
struct Device {
  int rank = 0;
  int group = 0;
  std::string host;
};

/// The content of a file, text or JSON.
struct Measured {
  std::string program;  ///< such as all_reduce_perf; empty: not named
  std::vector<Device> devices;
  int gpus_per_device_line = 1;  ///< JSON of several GPUs a process lists the first one of each
  std::map<Bytes, std::vector<double>> microseconds;

  /// Adds a time; nccl-tests also has rows of no bytes.
  void add(Bytes bytes, double time) {
    if (bytes > 0) microseconds[bytes].push_back(time);
  }
};

bool is_possible(double microseconds) {
  return std::isfinite(microseconds) && microseconds > 0 && microseconds < 1e12;
}

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Reads the text line by line.
class TextOutput {
 public:
  explicit TextOutput(const std::string& file) : file_(file) {}

  Expected<Measured> read(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      const std::vector<std::string> words = words_in(line);
      if (words.empty()) continue;
      if (words[0].starts_with('#')) {
        PPSIM_RETURN_IF_ERROR(read_comment(words));
      } else if (is_row(words)) {
        PPSIM_RETURN_IF_ERROR(read_row(words));
      }
    }
    if (time_ == 0)
      return no_output(file_, 0, "no output of nccl-tests", "no line with the names of columns");
    if (!ended_)
      return no_output(file_, line_, "the output was cut off", "no \"# Avg bus bandwidth\" at its end");
    return std::move(measured_);
  }

 private:
  /// "#  Rank  0 Group  0 Pid 6899 on host device 0 [...] name": words 1 to 8; older ones have no group.
  void read_device(const std::vector<std::string>& words) {
    const auto after = [&](const char* key) {
      const auto found = std::ranges::find(words, key);
      return found == words.end() || found + 1 == words.end() ? std::string() : *(found + 1);
    };
    const auto rank = parse_number<int>(after("Rank"));
    if (rank)
      measured_.devices.push_back({*rank, parse_number<int>(after("Group")).value_or(0), after("on")});
  }

  Expected<void> read_comment(const std::vector<std::string>& words) {
    if (words.size() > 2 && words[1] == "Rank") read_device(words);
    if (words.size() > 4 && words[1] == "Collective" && words[2] == "test") measured_.program = words[4];
    if (words.size() > 3 && words[1] == "Avg" && words[2] == "bus") ended_ = true;
    if (std::ranges::find(words, "FAILED") != words.end())
      return no_output(file_, line_, "the results of this run were wrong", "FAILED");
    if (words.size() > 2 && words[1] == "size") return read_header(words);
    return {};
  }

  Expected<void> read_header(const std::vector<std::string>& words) {
    if (std::ranges::find(words, "cputime") != words.end())
      return no_output(file_, line_, "times of the host say nothing of communication", "cputime");
    const auto time = std::ranges::find(words, "time");
    if (time == words.end()) return no_output(file_, line_, "no column of times", words.back());
    time_ = static_cast<std::size_t>(time - words.begin()) - 1;  // without the '#'
    wrong_.clear();
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "#wrong") wrong_.push_back(i - 1);
    }
    return {};
  }

  [[nodiscard]] bool is_row(const std::vector<std::string>& words) const {
    return time_ > 0 && parse_number<Bytes>(words[0]).has_value();
  }

  Expected<void> read_row(const std::vector<std::string>& words) {
    if (words.size() < time_ + 3)
      return no_output(file_, line_, "a row was cut off", std::to_string(words.size()) + " columns");
    const auto time = parse_number<double>(words[time_]);
    if (!time || *time < 0 || !(is_possible(*time) || *parse_number<Bytes>(words[0]) == 0))
      return no_output(file_, line_, "not a time in microseconds", words[time_]);
    for (const std::size_t column : wrong_) {
      if (column < words.size() && words[column] != "0" && words[column] != "N/A")
        return no_output(file_, line_, "the results of this run were wrong", "#wrong " + words[column]);
    }
    measured_.add(*parse_number<Bytes>(words[0]), *time);
    return {};
  }

  const std::string& file_;
  Measured measured_;
  std::size_t time_ = 0;            ///< its column; 0: not known yet
  std::vector<std::size_t> wrong_;  ///< columns of values that were wrong, out of place and in place
  int line_ = 0;
  bool ended_ = false;
};

/// Reads the JSON.
class JsonOutput {
 public:
  JsonOutput(const JsonFile& parsed) : parsed_(parsed), root_(parsed.root()) {}

  Expected<Measured> read() {
    if (!root_.is_object() || !root_.contains("results") || !root_.at("results").is_array())
      return parsed_.error_at({}, "no output of nccl-tests", "no list of results", kOutputExpected);
    PPSIM_RETURN_IF_ERROR(read_config());
    const json& results = root_.at("results");
    for (std::size_t i = 0; i < results.size(); ++i) PPSIM_RETURN_IF_ERROR(read_result(results[i], i));
    const json args = root_.value("args", json::array());
    if (args.is_array() && !args.empty() && args[0].is_string())
      measured_.program = args[0].get<std::string>();
    return std::move(measured_);
  }

 private:
  static int count(const json& object, const char* key) {
    return object.is_object() && object.contains(key) && object.at(key).is_number_integer()
               ? static_cast<int>(std::clamp<std::int64_t>(object.at(key).get<std::int64_t>(), 0, 1'000'000))
               : 1;
  }

  Expected<void> read_config() {
    const json config = root_.value("config", json::object());
    const json devices = config.is_object() ? config.value("devices", json::array()) : json::array();
    for (const json& one : devices) {
      if (!one.is_object() || !one.contains("hostname") || !one.at("hostname").is_string())
        return parsed_.error_at({"config"}, "a device without its host", one.dump(), "\"hostname\"");
      const int rank = one.contains("rank") ? count(one, "rank") : 0;
      measured_.devices.push_back(
          {rank, one.contains("group") ? count(one, "group") : 0, one.at("hostname").get<std::string>()});
    }
    const int each = count(config, "nthreads") * count(config, "ngpus");
    const bool lists_all = measured_.devices.size() > 1 && measured_.devices[1].rank == 1;
    if (!lists_all) measured_.gpus_per_device_line = std::max(1, each);
    return {};
  }

  Expected<void> read_result(const json& result, std::size_t index) {
    const JsonPath path = {"results", std::to_string(index)};
    if (!result.is_object() || !result.contains("size") || !result.at("size").is_number_integer())
      return parsed_.error_at(path, "a result without its size", "no whole number", "\"size\" in bytes");
    const json times = result.value("out_of_place", json());
    if (!times.is_object() || !times.contains("time") || !times.at("time").is_number())
      return parsed_.error_at(path, "a result without a time",
                              times.is_object() && times.contains("cpu_time") ? "cpu_time" : "none",
                              "\"time\" of \"out_of_place\", in microseconds");
    for (const json& ran : {times, result.value("in_place", json())}) {
      const json wrong = ran.is_object() ? ran.value("nwrong", json()) : json();
      if (wrong.is_number() && wrong.get<double>() != 0)
        return parsed_.error_at(path, "the results of this run were wrong", wrong.dump(), "0");
    }
    const auto bytes = result.at("size").get<Bytes>();
    const double time = times.at("time").get<double>();
    if (bytes < 0 || (bytes > 0 && !is_possible(time)))
      return parsed_.error_at(path, "not a time in microseconds", times.at("time").dump(), "more than 0");
    measured_.add(bytes, time);
    return {};
  }

  const JsonFile& parsed_;
  const json& root_;
  Measured measured_;
};

/// Programs of nccl-tests, by the operations that training steps have; others are not for us.
struct ProgramName {
  std::string_view name;
  std::optional<MeasuredOperation> operation;
};
constexpr auto kPrograms = std::to_array<ProgramName>({
    {"all_gather", MeasuredOperation::all_gather},
    {"all_reduce", MeasuredOperation::all_reduce},
    {"alltoallv", std::nullopt},
    {"alltoall", MeasuredOperation::all_to_all},
    {"reduce_scatter", MeasuredOperation::reduce_scatter},
    {"sendrecv", MeasuredOperation::send_receive},
    {"broadcast", std::nullopt},
    {"reduce_perf", std::nullopt},
    {"gather_perf", std::nullopt},
    {"scatter_perf", std::nullopt},
    {"hypercube", std::nullopt},
});

Expected<MeasuredOperation> operation_of(const Measured& measured, const std::string& file) {
  const std::string name = file.substr(file.find_last_of('/') + 1);
  for (const std::string& text : {measured.program, name}) {
    for (const ProgramName& program : kPrograms) {
      if (text.find(program.name) == std::string::npos) continue;
      if (program.operation) return *program.operation;
      return no_output(file, 0, "an operation that no step has", std::string(program.name));
    }
  }
  return make_error(ErrorCode::bad_argument, "the output does not say which operation it is of",
                    {.file = file, .expected = "all_reduce=" + file + ", or a file with its name in it"});
}

/// The GPUs that communicate: those of the group of rank 0.
Expected<GpuGroup> group_of(const Measured& measured, const std::string& file) {
  std::map<std::string, int> by_host;
  int gpus = 0;
  for (const Device& device : measured.devices) {
    if (device.group != measured.devices.front().group) continue;
    gpus += measured.gpus_per_device_line;
    by_host[device.host] += measured.gpus_per_device_line;
  }
  if (gpus < 2)
    return no_output(file, 0, "communication needs two GPUs", std::to_string(gpus) + " devices listed");
  const int each = by_host.begin()->second;
  const bool even = std::ranges::all_of(by_host, [&](const auto& host) { return host.second == each; });
  if (!even) return no_output(file, 0, "nodes with different numbers of GPUs", std::to_string(each));
  return GpuGroup{gpus, each};
}

}  // namespace

Expected<MeasuredCollective> read_nccl_tests(std::string_view text, const std::string& file,
                                             std::optional<MeasuredOperation> operation) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return no_output(file, 0, "no output of nccl-tests", "an empty file");
  Measured measured;
  if (text[first] == '{') {
    PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
    PPSIM_ASSIGN_OR_RETURN(measured, JsonOutput(parsed).read());
  } else {
    PPSIM_ASSIGN_OR_RETURN(measured, TextOutput(file).read(text));
  }
  if (measured.microseconds.empty()) return no_output(file, 0, "no measurement", "no row of sizes and times");
  MeasuredCollective result;
  if (operation) {
    result.operation = *operation;
  } else {
    PPSIM_ASSIGN_OR_RETURN(result.operation, operation_of(measured, file));
  }
  PPSIM_ASSIGN_OR_RETURN(result.group, group_of(measured, file));
  for (const auto& [bytes, times] : measured.microseconds) {
    double sum = 0;
    for (const double time : times) sum += time;
    const double mean = sum / static_cast<double>(times.size());
    result.times.push_back({bytes, std::max<Nanoseconds>(1, std::llround(mean * 1000))});
  }
  return result;
}

}  // namespace ppsim::planner

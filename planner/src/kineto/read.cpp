#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cells.hpp"
#include "io/action_scan.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/kineto.hpp"

namespace ppsim::planner {
namespace {

constexpr std::string_view kPrefix = "PP:";

/// One event of a trace.
struct Event {
  std::string name, phase, category;
  double start_us = 0;
  double duration_us = -1;
};

/// An event of the pipeline.
struct Found {
  KinetoRange range;
  bool on_device = false;
};

/// Reads events as they come: a trace of a step takes hundreds of megabytes.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// `is_list`: the text is a list of events, and not an object that has one.
  explicit Handler(bool is_list) : event_depth_(is_list ? 2 : 3), in_events_(is_list) {}

  std::vector<Found> found;
  std::int64_t base_ns = 0;
  std::string failure;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return number(value, static_cast<std::int64_t>(std::min(std::max(value, -9e18), 9e18)));
  }
  bool string(string_t& value) override {
    if (!in_event()) return true;
    if (key_ == "name") event_.name = value;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_event()) event_ = Event();
    return true;
  }
  bool key(string_t& value) override {
    if (event_depth_ == 3 && depth_ == 1) in_events_ = value == "traceEvents";
    if (in_event() || depth_ == 1) key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    if (in_event()) keep();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& wrong) override {
    // Without the exception's name and number, which stand in brackets before it.
    const std::string_view what(wrong.what());
    const std::size_t name = what.find("] ");
    failure = printable(what.substr(name == std::string_view::npos ? 0 : name + 2), 200);
    return false;
  }

 private:
  [[nodiscard]] bool in_event() const { return in_events_ && depth_ == event_depth_; }

  bool number(double value, std::int64_t whole) {
    if (depth_ == 1 && key_ == "baseTimeNanoseconds") base_ns = whole;
    if (!in_event()) return true;
    if (key_ == "ts") event_.start_us = value;
    if (key_ == "dur") event_.duration_us = value;
    return true;
  }

  void keep() {
    constexpr double kMaxMicroseconds = 4e15;  // that nanoseconds hold, with room for differences
    const bool on_device = event_.category == "gpu_user_annotation";
    const bool is_range = event_.phase == "X" && event_.name.starts_with(kPrefix) &&
                          (on_device || event_.category == "user_annotation");
    if (!is_range || event_.duration_us < 0 || event_.start_us < 0 || event_.start_us > kMaxMicroseconds ||
        event_.duration_us > kMaxMicroseconds)
      return;
    const Nanoseconds start = std::llround(event_.start_us * 1000);
    found.push_back(
        {{event_.name.substr(kPrefix.size()), start, start + std::llround(event_.duration_us * 1000)},
         on_device});
  }

  int event_depth_;
  bool in_events_;
  int depth_ = 0;
  std::string key_;
  Event event_;
};

tl::unexpected<Error> no_trace(const std::string& file, const std::string& why, const std::string& found) {
  return make_error(ErrorCode::bad_file, why,
                    {.file = file,
                     .found = found,
                     .expected = "JSON of torch.profiler over a step of torch.distributed.pipelining, with "
                                 "ranges such as PP:0F0"});
}

}  // namespace

bool is_computation_cell(std::string_view cell) {
  if (cell.starts_with('(')) return true;
  const std::size_t kind = cell.find_first_not_of("0123456789");
  return kind != std::string_view::npos && kind + 1 < cell.size() &&
         std::string_view("FBIW").find(cell[kind]) != std::string_view::npos &&
         cell.find_first_not_of("0123456789", kind + 1) == std::string_view::npos;
}

Expected<std::vector<std::string>> kineto_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path, failed)) {
      if (suffix_of(entry.path().string()) == ".json") files.push_back(entry.path().string());
    }
    if (failed) return make_error(ErrorCode::io, failed.message(), {.file = path});
    if (files.size() == before)
      return no_trace(path, "a folder without traces", "no file that ends in .json");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

Expected<KinetoRanges> read_kineto(std::string_view text, const std::string& file) {
  if (text.starts_with("\x1f\x8b")) {
    return make_error(ErrorCode::bad_file, "the trace is compressed",
                      {.file = file, .found = "gzip", .expected = "gunzip " + file + " first"});
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  Handler handler(first != std::string_view::npos && text[first] == '[');
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler))
    return no_trace(file, "no trace", handler.failure);
  const auto computes = [](const Found& item) { return is_computation_cell(item.range.cell); };
  KinetoRanges result{
      file,
      std::ranges::any_of(handler.found, [&](const Found& item) { return item.on_device && computes(item); }),
      {}};
  for (Found& item : handler.found) {
    if (item.on_device != result.on_device || !computes(item)) continue;
    item.range.start += handler.base_ns;
    item.range.end += handler.base_ns;
    result.ranges.push_back(std::move(item.range));
  }
  if (result.ranges.empty()) return no_trace(file, "no range of a pipeline", "none");
  std::ranges::stable_sort(result.ranges, {}, &KinetoRange::start);
  return result;
}

}  // namespace ppsim::planner

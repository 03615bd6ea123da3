#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "cells.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/kineto.hpp"

namespace ppsim::planner {
namespace {

constexpr std::string_view kRangePrefix = "PP:";
constexpr Nanoseconds kMaxTime = 4'000'000'000'000'000'000;  // with room for differences
/// Of a thread's id the bits above are those of its process.
constexpr int kThreadBits = 24;

tl::unexpected<Error> no_report(const std::string& file, std::string why, std::string found) {
  return make_error(
      ErrorCode::bad_file, std::move(why),
      {.file = file,
       .found = std::move(found),
       .expected = "what `nsys export --type sqlite` makes of a report with NVTX ranges such as "
                   "PP:0F0"});
}

/// An opened report.
class Report {
 public:
  static Expected<Report> open(const std::string& file) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    Report report(file, opened);
    if (code != SQLITE_OK) return no_report(file, "the report cannot be opened", report.failure());
    return report;
  }

  /// Calls `row` with every row of a query.
  template <class Row>
  Expected<void> each(const std::string& query, Row row) const {
    sqlite3_stmt* prepared = nullptr;
    const int code = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, &sqlite3_finalize);
    if (code != SQLITE_OK) return no_report(file_, "no report of Nsight Systems", failure());
    for (;;) {
      const int step = sqlite3_step(statement.get());
      if (step == SQLITE_DONE) return {};
      if (step != SQLITE_ROW) return no_report(file_, "the report cannot be read to its end", failure());
      row(statement.get());
    }
  }

  /// Versions of nsys differ in tables and columns.
  [[nodiscard]] Expected<std::set<std::string>> columns_of(const std::string& table) const {
    std::set<std::string> columns;
    PPSIM_RETURN_IF_ERROR(each("SELECT name FROM pragma_table_info('" + table + "')",
                               [&](sqlite3_stmt* row) { columns.insert(text(row, 0)); }));
    return columns;
  }

  static std::string text(sqlite3_stmt* row, int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    return bytes == nullptr ? std::string() : std::string(bytes);
  }

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  Report(std::string file, sqlite3* database) : file_(std::move(file)), database_(database, &sqlite3_close) {}

  [[nodiscard]] std::string failure() const { return sqlite3_errmsg(database_.get()); }

  std::string file_;
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database_;
};

/// A range of a process on the host's clock.
struct HostRange {
  std::string cell;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// The kernel of a launch.
struct Launched {
  Nanoseconds at = 0;  ///< on the host
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

using ByProcess = std::map<std::int64_t, std::vector<HostRange>>;
using LaunchesByProcess = std::map<std::int64_t, std::vector<Launched>>;

bool is_time(Nanoseconds start, Nanoseconds end) { return start >= 0 && start <= end && end <= kMaxTime; }

Expected<ByProcess> ranges_of(const Report& report) {
  PPSIM_ASSIGN_OR_RETURN(const auto columns, report.columns_of("NVTX_EVENTS"));
  if (columns.empty()) return no_report(report.file(), "no table of NVTX ranges", "no NVTX_EVENTS");
  for (const char* needed : {"start", "end", "globalTid"}) {
    if (!columns.contains(needed))
      return no_report(report.file(), "NVTX_EVENTS lacks a column", std::string("no ") + needed);
  }
  PPSIM_ASSIGN_OR_RETURN(const auto strings, report.columns_of("StringIds"));
  const bool by_id = columns.contains("textId") && !strings.empty();
  const std::string text = columns.contains("text") ? "e.text" : "NULL";
  const std::string name = by_id ? "COALESCE(" + text + ", s.value)" : text;
  const std::string query = "SELECT " + name + ", e.start, e.\"end\", e.globalTid FROM NVTX_EVENTS AS e" +
                            (by_id ? " LEFT JOIN StringIds AS s ON s.id = e.textId" : "") + " WHERE " + name +
                            " LIKE 'PP:%' AND e.\"end\" IS NOT NULL";
  ByProcess ranges;
  PPSIM_RETURN_IF_ERROR(report.each(query, [&](sqlite3_stmt* row) {
    const std::string named = Report::text(row, 0);
    const HostRange range{named.substr(std::min(named.size(), kRangePrefix.size())),
                          sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2)};
    if (named.starts_with(kRangePrefix) && is_computation_cell(range.cell) && is_time(range.start, range.end))
      ranges[sqlite3_column_int64(row, 3) >> kThreadBits].push_back(range);
  }));
  return ranges;
}

/// Kernels by the process and the time of their launch. Those of NCCL are communication. Of a report without
/// kernels: nothing.
Expected<LaunchesByProcess> launches_of(const Report& report) {
  PPSIM_ASSIGN_OR_RETURN(const auto kernels, report.columns_of("CUPTI_ACTIVITY_KIND_KERNEL"));
  PPSIM_ASSIGN_OR_RETURN(const auto runtime, report.columns_of("CUPTI_ACTIVITY_KIND_RUNTIME"));
  LaunchesByProcess launches;
  if (!kernels.contains("correlationId") || !runtime.contains("correlationId") ||
      !runtime.contains("globalTid"))
    return launches;
  PPSIM_ASSIGN_OR_RETURN(const auto strings, report.columns_of("StringIds"));
  const bool named = kernels.contains("shortName") && !strings.empty();
  std::string query =
      "SELECT r.globalTid, r.start, k.start, k.\"end\" FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN "
      "CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId";
  if (kernels.contains("globalPid")) query += " AND (r.globalTid >> 24) = (k.globalPid >> 24)";
  if (named)
    query += " LEFT JOIN StringIds AS s ON s.id = k.shortName WHERE COALESCE(s.value, '') NOT LIKE '%nccl%'";
  PPSIM_RETURN_IF_ERROR(report.each(query, [&](sqlite3_stmt* row) {
    const Launched launched{sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2),
                            sqlite3_column_int64(row, 3)};
    if (is_time(launched.start, launched.end))
      launches[sqlite3_column_int64(row, 0) >> kThreadBits].push_back(launched);
  }));
  for (auto& [process, of_process] : launches) std::ranges::sort(of_process, {}, &Launched::at);
  return launches;
}

/// From the first start to the last end of the kernels that were launched within a range, by whichever thread
/// of its process: autograd has threads of its own. Nothing where there are none.
std::optional<KinetoRange> on_device(const HostRange& range, const std::vector<Launched>& launches) {
  std::optional<KinetoRange> found;
  for (auto at = std::ranges::lower_bound(launches, range.start, {}, &Launched::at);
       at != launches.end() && at->at <= range.end; ++at) {
    if (!found) found = KinetoRange{range.cell, at->start, at->end};
    found->start = std::min(found->start, at->start);
    found->end = std::max(found->end, at->end);
  }
  return found;
}

KinetoRanges process_ranges(const std::string& file, const std::vector<HostRange>& host,
                            const std::vector<Launched>& launches) {
  KinetoRanges result{file, false, {}};
  for (const HostRange& range : host) {
    if (auto device = on_device(range, launches)) result.ranges.push_back(*std::move(device));
  }
  result.on_device = !result.ranges.empty();
  if (!result.on_device) {
    for (const HostRange& range : host) result.ranges.push_back({range.cell, range.start, range.end});
  }
  std::ranges::stable_sort(result.ranges, {}, &KinetoRange::start);
  return result;
}

}  // namespace

Expected<std::vector<KinetoRanges>> read_nsys(const std::string& file) {
  if (suffix_of(file) == ".nsys-rep")
    return make_error(ErrorCode::bad_file, "a report of nsys has to be exported first",
                      {.file = file, .expected = "the file of `nsys export --type sqlite " + file + "`"});
  PPSIM_ASSIGN_OR_RETURN(const auto report, Report::open(file));
  PPSIM_ASSIGN_OR_RETURN(const auto ranges, ranges_of(report));
  if (ranges.empty()) return no_report(file, "no range of a pipeline", "none");
  PPSIM_ASSIGN_OR_RETURN(const auto launches, launches_of(report));
  std::vector<KinetoRanges> processes;
  for (const auto& [process, host] : ranges) {
    const auto found = launches.find(process);
    const std::string name =
        ranges.size() == 1 ? file : file + " (process " + std::to_string(process & 0xffffff) + ")";
    processes.push_back(
        process_ranges(name, host, found == launches.end() ? std::vector<Launched>() : found->second));
  }
  return processes;
}

}  // namespace ppsim::planner

// Many configurations of one question, in a store that resumes.

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "binding.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/planner/study.hpp"

namespace ppsim::python {
namespace {

/// Values of a point by their names, hashes of the files that these name, and its result: all travel between
/// processes.
using Values = std::map<std::string, std::string>;
using Point = std::tuple<Values, Values>;
using Row = std::tuple<std::string, std::string, std::string, std::map<std::string, double>, std::string>;

Row row_of(planner::StoredResult result) {
  return {std::move(result.point), std::move(result.status), std::move(result.reason),
          std::move(result.figures), std::move(result.layout)};
}

planner::StoredResult result_of(const Row& row) {
  const auto& [point, status, reason, figures, layout] = row;
  return {.point = point, .status = status, .reason = reason, .figures = figures, .layout = layout};
}

/// A study with its store.
class OpenStudy {
 public:
  OpenStudy(const std::string& text, const std::string& file, const std::string& store)
      : study_(value_of(read_study(text, file))), store_(value_of(StudyStore::open(store))) {}

  [[nodiscard]] std::size_t size() const { return study_.points.size(); }

  [[nodiscard]] std::vector<Point> missing() const {
    const auto known = value_of(store_.results());
    std::vector<Point> missing;
    for (const StudyPoint& point : study_.points) {
      if (!known.contains(point.key())) missing.emplace_back(point.values, point.files);
    }
    return missing;
  }

  /// `progress`: a function of the points done, those of earlier runs included, and of all, or None; called
  /// by other threads. What it raises ends the run.
  [[nodiscard]] std::size_t run(int jobs, const nb::object& progress) {
    std::exception_ptr raised;
    std::atomic<bool> failed = false;
    const std::size_t before = size() - missing().size();
    std::size_t told = 0;
    const auto tell = [&](std::size_t done, std::size_t /*all*/) {
      const nb::gil_scoped_acquire acquire;
      if (failed || done == told) return;
      told = done;
      try {
        progress(before + done, size());
      } catch (...) {
        raised = std::current_exception();
        failed = true;
      }
    };
    const auto evaluated = interruptible([&](const Stopped& stopped) {
      planner::StudyRun how{.jobs = jobs, .stopped = [&] { return failed || stopped(); }};
      if (!progress.is_none()) how.progress = tell;
      return run_study(study_, store_, how);
    });
    if (raised) std::rethrow_exception(raised);
    return value_of(evaluated);
  }

  void add(const std::map<std::string, Row>& rows) {
    std::map<std::string, planner::StoredResult> results;
    for (const auto& [key, row] : rows) results.emplace(key, result_of(row));
    value_of(store_.add(results));
  }

  void merge(const std::string& file) { value_of(store_.merge(file)); }

  [[nodiscard]] std::string csv() const { return planner::study_csv(study_, value_of(store_.results())); }
  [[nodiscard]] std::string jsonl() const { return planner::study_jsonl(study_, value_of(store_.results())); }

 private:
  Study study_;
  StudyStore store_;
};

std::map<std::string, Row> evaluate_points(const std::vector<Point>& points) {
  return interruptible([&](const Stopped& stopped) {
    PointEvaluator evaluate;
    std::map<std::string, Row> rows;
    for (const auto& [values, files] : points) {
      if (stopped()) break;
      const StudyPoint point{values, files};
      PointResult result;
      try {
        result = evaluate(point);
      } catch (const Overflow& sum) {
        result.reason = sum.what();
      }
      rows.emplace(point.key(), row_of(planner::stored_result(point, result)));
    }
    return rows;
  });
}

}  // namespace

void bind_study(nb::module_& module) {
  nb::class_<OpenStudy>(module, "OpenStudy", "A study with its store.")
      .def(nb::init<const std::string&, const std::string&, const std::string&>(), "text"_a, "file"_a,
           "store"_a)
      .def_prop_ro("size", &OpenStudy::size)
      .def("missing", &OpenStudy::missing)
      .def("run", &OpenStudy::run, "jobs"_a, "progress"_a.none())
      .def("add", &OpenStudy::add, "rows"_a)
      .def("merge", &OpenStudy::merge, "file"_a)
      .def("csv", &OpenStudy::csv)
      .def("jsonl", &OpenStudy::jsonl);
  module.def("evaluate_points", &evaluate_points, "points"_a);
}

}  // namespace ppsim::python

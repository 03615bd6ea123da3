#include "plan_page.hpp"

#include <algorithm>

#include "command.hpp"
#include "options/plan_options.hpp"
#include "output/chart_page.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim::cli {
namespace {

/// Plot and table, which lead to each other.
class PlanPage {
 public:
  PlanPage(const PlanOptions& options, const Plan& plan) : options_(options), plan_(plan) {
    plot_ = {.x_title = "peak memory of a GPU (GB)", .y_title = "step (ms)"};
    plot_.limit = static_cast<double>(plan.best.front().memory_limit) / 1e9;
    plot_.limit_name = "memory of the GPU";
    rows_ = {{"",
              {"", "plan", "step", "layers", "bubble", "communication", "step end", "peak memory", "tokens/s",
               "MFU"}}};
  }

  /// Returns the number of its point.
  std::size_t add(const PlanRow& row, const std::string& label, PlotPoint::Mark mark) {
    const auto known = std::ranges::find(known_, row);
    if (known != known_.end()) return as_size(known - known_.begin());
    const std::string id = "plan-" + std::to_string(known_.size() + 1);
    known_.push_back(row);
    plot_.points.push_back(
        {static_cast<double>(row.peak_bytes) / 1e9, static_cast<double>(row.step) / 1e6,
         label + ": " + as_text(row.choice) + ", " + time_text(row.step) + ", " + size_text(row.peak_bytes),
         id, mark});
    rows_.push_back(
        {id,
         {"<a href=\"#point-" + id + "\">" + html_text(label) + "</a>", details(row), time_text(row.step),
          time_text(row.parts.layers), time_text(row.parts.bubble), time_text(row.parts.communication),
          time_text(row.parts.step_end), size_text(row.peak_bytes),
          std::to_string(static_cast<long long>(row.tokens_per_second)),
          percent_text(row.model_flops_utilization)}});
    return known_.size() - 1;
  }

  void join(std::size_t point) { plot_.joined.push_back(point); }

  [[nodiscard]] std::string body() const {
    return "<h2>Step over memory</h2>\n<p>A point leads to its row. Dots are plans that fit, the best and "
           "those on the front of time and memory, which the dashed line joins; circles were asked for; "
           "crosses do not fit.</p>\n" +
           plot_svg(plot_) + "<h2>Plans</h2>\n" + html_table(rows_);
  }

 private:
  [[nodiscard]] std::string details(const PlanRow& row) const {
    const PlanRow& best = plan_.best.front();
    std::string text = html_text(as_text(row.choice));
    if (row.step > best.step)
      text += "<br>slower than the best: " + html_text(planner::why_slower(best, row));
    return text + "<details><summary>command</summary><pre>" + html_text(plan_command(options_, row.choice)) +
           "</pre></details>";
  }

  const PlanOptions& options_;
  const Plan& plan_;
  std::vector<PlanRow> known_;
  Plot plot_;
  std::vector<HtmlRow> rows_;
};

}  // namespace

std::string plan_page(const PlanOptions& options, const Plan& plan, const std::vector<PlanRival>& rivals,
                      const std::string& command) {
  PlanPage page(options, plan);
  for (std::size_t i = 0; i < plan.best.size(); ++i)
    page.add(plan.best[i], std::to_string(i + 1), PlotPoint::Mark::dot);
  for (const PlanRow& row : plan.front) page.join(page.add(row, "front", PlotPoint::Mark::dot));
  for (const PlanRival& rival : rivals) {
    const bool fits = rival.row.spare_bytes() >= 0;
    page.add(rival.row, "asked", fits ? PlotPoint::Mark::circle : PlotPoint::Mark::cross);
  }
  if (plan.fastest_misfit) page.add(*plan.fastest_misfit, "does not fit", PlotPoint::Mark::cross);
  return chart_page("Plans for " + options.costs.model + " on " + options.costs.cluster, command,
                    page.body());
}

}  // namespace ppsim::cli

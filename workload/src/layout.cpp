#include "ppsim/workload/layout.hpp"

#include <algorithm>

namespace ppsim::workload {
namespace {

constexpr std::size_t kShortestRun = 3;  // that is written with a star

std::string repeated(char letter, std::int64_t count) {
  if (count < static_cast<std::int64_t>(kShortestRun))
    return std::string(static_cast<std::size_t>(count), letter);
  return std::string(1, letter) + '*' + std::to_string(count);
}

/// Appends an item, behind a comma where it would else stand next to a number.
void append(std::string& text, const std::string& item) {
  const bool after_number = !text.empty() && text.back() >= '0' && text.back() <= '9';
  if (after_number && !item.empty() && item.front() != '|') text += ',';
  text += item;
}

std::string stage_text(const StageContents& stage) {
  std::string text = stage.embedding ? "E" : "";
  append(text, repeated('t', stage.layers));
  append(text, repeated('m', stage.mtp));
  append(text, stage.loss ? "L" : "");
  return text;
}

std::string ends_text(const StageContents& stage) {
  if (stage.embedding && stage.loss) return "E and L";
  if (stage.embedding) return "E";
  return stage.loss ? "L" : "neither E nor L";
}

Expected<void> check_ends(const PipelineLayout& layout) {
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    const StageContents& stage = layout.stages[s];
    const StageContents ends{.embedding = s == 0, .loss = s + 1 == layout.stages.size()};
    if (stage.embedding == ends.embedding && stage.loss == ends.loss) continue;
    return make_error(ErrorCode::bad_argument,
                      "stage " + std::to_string(s) + " of the layout has the wrong ends",
                      {.found = ends_text(stage), .expected = ends_text(ends)});
  }
  return {};
}

}  // namespace

std::int64_t PipelineLayout::layers() const {
  std::int64_t sum = 0;
  for (const StageContents& stage : stages) sum += stage.layers;
  return sum;
}

std::int64_t PipelineLayout::mtp() const {
  std::int64_t sum = 0;
  for (const StageContents& stage : stages) sum += stage.mtp;
  return sum;
}

std::string layout_text(const PipelineLayout& layout) {
  std::string text;
  const auto& stages = layout.stages;
  for (std::size_t s = 0; s < stages.size();) {
    // A boundary follows every stage of a run but the last stage of all.
    const auto next = std::find_if(stages.begin() + static_cast<std::ptrdiff_t>(s), stages.end() - 1,
                                   [&](const StageContents& other) { return other != stages[s]; });
    const std::size_t run = static_cast<std::size_t>(next - stages.begin()) - s;
    const std::string stage = stage_text(stages[s]);
    if (run >= kShortestRun) {
      append(text, "(" + stage + "|)*" + std::to_string(run));
      s += run;
    } else {
      append(text, stage);
      if (++s < stages.size()) text += '|';
    }
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const PipelineLayout& layout) {
  return out << layout_text(layout);
}

PipelineLayout even_layout(std::int64_t layers, int stages) {
  PipelineLayout layout;
  for (std::int64_t s = 0; s < stages; ++s)
    layout.stages.push_back({.layers = layers / stages + (s < layers % stages ? 1 : 0)});
  layout.stages.front().embedding = true;
  layout.stages.back().loss = true;
  return layout;
}

Expected<void> check_layout(const PipelineLayout& layout, std::int64_t layers, int stages) {
  const auto found = static_cast<std::int64_t>(layout.stages.size());
  if (found != stages) {
    return make_error(ErrorCode::bad_argument, "the layout must have the stages of the pipeline",
                      {.found = std::to_string(found) + " stages", .expected = std::to_string(stages)});
  }
  if (layout.layers() != layers) {
    return make_error(
        ErrorCode::bad_argument, "the layout must have the layers of the model",
        {.found = std::to_string(layout.layers()) + " layers", .expected = std::to_string(layers)});
  }
  bool mtp = false;
  for (const StageContents& stage : layout.stages) {
    if (mtp && stage.layers > 0) {
      return make_error(ErrorCode::bad_argument,
                        "a transformer layer follows a multi-token prediction layer");
    }
    mtp = mtp || stage.mtp > 0;
  }
  return check_ends(layout);
}

}  // namespace ppsim::workload

#include <algorithm>

#include "ppsim/core/text/nearest.hpp"
#include "readers.hpp"

namespace ppsim::planner {
namespace {

struct FileKind {
  MeasurementKind kind;
  std::string_view name;
  std::vector<std::string_view> columns;  ///< that tell it from others
  MeasuredRow (*read)(SheetRow&);
};

const std::vector<FileKind>& file_kinds() {
  static const std::vector<FileKind> kinds = {
      {MeasurementKind::published,
       "published figures",
       {"source", "model", "system", "metric", "value"},
       read_published},
      {MeasurementKind::one_node,
       "runs on one node",
       {"model", "tp", "pp", "dp", "seq", "microbatches", "step_ms"},
       read_one_node},
      {MeasurementKind::megatron_bridge,
       "Megatron-Bridge",
       {"model", "system", "num_gpus", "gbs", "tp", "pp", "tokens_per_s_per_gpu"},
       read_megatron_bridge},
      {MeasurementKind::vtrain,
       "vTrain",
       {"# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers",
        "sequence length", "tensor parallelism", "pipeline parallelism", "iteration time (ms)"},
       read_vtrain},
      {MeasurementKind::llm_foundry,
       "llm-foundry",
       {"Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum", "Throughput (T/s/GPU)",
        "Activation Checkpointing"},
       read_llm_foundry},
      {MeasurementKind::stage_times,
       "stage times",
       {"case", "pipeline_ranks", "microbatches", "forward_us_per_rank", "backward_us_per_rank",
        "iteration_ms"},
       read_stage_times},
  };
  return kinds;
}

bool is_of(const Sheet& sheet, const FileKind& kind) {
  return std::ranges::all_of(kind.columns, [&](std::string_view column) { return sheet.has(column); });
}

Error unknown_header(const Sheet& sheet, const std::string& file) {
  std::string known;
  for (const FileKind& kind : file_kinds())
    known += (known.empty() ? "" : "; or ") + joined(kind.columns, ",") + " (" + std::string(kind.name) + ")";
  return {ErrorCode::bad_file,
          "no file of measurements has such a header",
          {.file = file, .row = 1, .found = joined(sheet.header(), ","), .expected = "the columns " + known}};
}

}  // namespace

Expected<std::vector<MeasuredRow>> read_measurements(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto sheet, Sheet::read(text, file));
  const auto kind =
      std::ranges::find_if(file_kinds(), [&](const FileKind& one) { return is_of(sheet, one); });
  if (kind == file_kinds().end()) return tl::unexpected(unknown_header(sheet, file));
  std::vector<MeasuredRow> rows;
  for (std::size_t i = 0; i < sheet.rows(); ++i) {
    SheetRow row(sheet, i);
    MeasuredRow read = kind->read(row);
    if (row.error()) return tl::unexpected(*row.error());
    read.kind = kind->kind;
    read.file = file;
    read.line = row.line();
    rows.push_back(std::move(read));
  }
  return rows;
}

}  // namespace ppsim::planner

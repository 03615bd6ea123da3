#include "ppsim/planner/traces/chakra_files.hpp"

#include <filesystem>
#include <map>
#include <optional>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::planner {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTraceSuffix = ".et";

tl::unexpected<Error> no_traces(const std::string& path, std::string why, std::string found) {
  return make_error(ErrorCode::bad_file, std::move(why),
                    {.file = path,
                     .found = std::move(found),
                     .expected = "PREFIX.0.et, PREFIX.1.et, ..., one of each rank; or the folder with them"});
}

/// "trace" and 3 of "trace.3.et".
struct RankFile {
  std::string prefix;
  int rank = 0;
};

std::optional<RankFile> rank_file(const std::string& name) {
  if (!name.ends_with(kTraceSuffix)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kTraceSuffix.size());
  const std::size_t dot = stem.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  const auto rank = parse_count(std::string_view(stem).substr(dot + 1));
  if (!rank) return std::nullopt;
  return RankFile{stem.substr(0, dot), *rank};
}

/// Where the files are, and what they are called.
struct TraceFolder {
  fs::path folder;
  std::string prefix;               ///< empty: whichever is there
  std::map<std::string, int> most;  ///< highest rank by prefix
};

Expected<TraceFolder> look_for(const std::string& path) {
  std::error_code failed;
  TraceFolder found{path, "", {}};
  if (!fs::is_directory(path, failed)) {
    found.folder = fs::path(path).parent_path().empty() ? fs::path(".") : fs::path(path).parent_path();
    const std::string name = fs::path(path).filename().string();
    const auto file = rank_file(name);
    found.prefix = file ? file->prefix : name;
  }
  fs::directory_iterator entries(found.folder, failed);
  if (failed) return no_traces(path, "no Chakra traces", failed.message());
  for (const auto& entry : entries) {
    const auto file = rank_file(entry.path().filename().string());
    if (std::error_code ignored; !entry.is_regular_file(ignored)) continue;
    if (!file || (!found.prefix.empty() && file->prefix != found.prefix)) continue;
    int& most = found.most.try_emplace(file->prefix, -1).first->second;
    most = std::max(most, file->rank);
  }
  if (found.most.empty()) return no_traces(path, "no Chakra traces", "no such file");
  if (found.most.size() > 1)
    return no_traces(path, "traces of several runs in one folder",
                     found.most.begin()->first + " and " + std::next(found.most.begin())->first);
  found.prefix = found.most.begin()->first;
  return found;
}

}  // namespace

Expected<ChakraTrace> read_chakra_files(const std::string& path) {
  PPSIM_ASSIGN_OR_RETURN(const auto found, look_for(path));
  std::vector<ChakraFile> files;
  for (int rank = 0; rank <= found.most.begin()->second; ++rank) {
    const std::string name = (found.folder / (found.prefix + "." + std::to_string(rank) + ".et")).string();
    if (std::error_code failed; !fs::is_regular_file(name, failed))
      return no_traces(name, "the trace of a rank is missing",
                       "traces up to rank " + std::to_string(found.most.begin()->second));
    PPSIM_ASSIGN_OR_RETURN(auto bytes, read_text_file(name));
    files.push_back({name, std::move(bytes)});
  }
  PPSIM_ASSIGN_OR_RETURN(auto trace, read_chakra(files));
  const std::string groups = (found.folder / "comm_groups.json").string();
  if (std::error_code failed; fs::is_regular_file(groups, failed)) {
    PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(groups));
    PPSIM_RETURN_IF_ERROR(add_chakra_groups(text, groups, trace));
  }
  return trace;
}

}  // namespace ppsim::planner

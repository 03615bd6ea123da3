#include "query_folder.hpp"

#include <filesystem>

#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

namespace fs = std::filesystem;

std::string numbered(int number) {
  std::string text = std::to_string(number);
  return std::string(3 - std::min<std::size_t>(3, text.size()), '0') + text;
}

}  // namespace

Expected<std::shared_ptr<QueryFolder>> QueryFolder::open(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return make_error(ErrorCode::io, "cannot make the folder: " + failed.message(), {.file = path});
  for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
    if (entry.path().extension() != ".smt2") continue;
    return make_error(ErrorCode::bad_argument, "--smt2 names a folder with queries",
                      {.found = entry.path().string(), .expected = "a folder without, or a new one"});
  }
  if (failed) return make_error(ErrorCode::io, "cannot read the folder: " + failed.message(), {.file = path});
  return std::shared_ptr<QueryFolder>(new QueryFolder(path));
}

QuerySink QueryFolder::sink() {
  return [this](const SolverQuery& query) { write(query); };
}

void QueryFolder::write(const SolverQuery& query) {
  if (failure_) return;
  const fs::path file = fs::path(path_) / (numbered(count_ + 1) + '-' + query.name + ".smt2");
  if (auto written = write_text_file(file.string(), query.script); !written) {
    failure_ = written.error();
  } else {
    ++count_;
  }
}

int QueryFolder::finish(int exit, const Output& output) const {
  if (failure_) return report(*failure_, output);
  std::string text =
      "ppsim: " + std::to_string(count_) + (count_ == 1 ? " query" : " queries") + " in " + path_;
  if (count_ == 0) text += ": " + reason_;
  output.note(text);
  return exit;
}

Expected<int> with_queries(const std::string& path, const Output& output,
                           const std::function<Expected<int>(const std::shared_ptr<QueryFolder>&)>& ask) {
  if (path.empty()) return ask(nullptr);
  PPSIM_ASSIGN_OR_RETURN(const auto folder, QueryFolder::open(path));
  const Expected<int> asked = ask(folder);
  const int exit = asked ? *asked : report(asked.error(), output);
  return exit == kUsage ? exit : folder->finish(exit, output);
}

void add_query_option(Command& command, std::string& path) {
  command.add_option("--smt2", path,
                     "write every query that Z3 is asked as an SMT-LIB 2 file into the folder DIR");
}

}  // namespace ppsim::cli

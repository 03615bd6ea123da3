#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ppsim/planner/study.hpp"

namespace ppsim::planner {
namespace {

constexpr int kStoreVersion = 1;
constexpr int kBusyMilliseconds = 60'000;  // until another process has written

constexpr int kRetryMilliseconds = 20;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS points ("
    "key TEXT PRIMARY KEY, point TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, layout TEXT NOT "
    "NULL, "
    "step_ns REAL, layers_ns REAL, bubble_ns REAL, communication_ns REAL, step_end_ns REAL, peak_bytes REAL, "
    "memory_limit_bytes REAL, tokens_per_second REAL, model_flops_utilization REAL, gpu_hours REAL, "
    "min_bytes REAL) WITHOUT ROWID";

/// Seconds without a sign of life after which a claim is anybody's.
constexpr double kLease = 10;

constexpr const char* kClaims =
    "CREATE TABLE IF NOT EXISTS claims ("
    "key TEXT PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, started TEXT NOT NULL, until REAL "
    "NOT NULL) "
    "WITHOUT ROWID";

constexpr std::array<const char*, 11> kFigureColumns = {
    "step_ns",    "layers_ns",          "bubble_ns",         "communication_ns",        "step_end_ns",
    "peak_bytes", "memory_limit_bytes", "tokens_per_second", "model_flops_utilization", "gpu_hours",
    "min_bytes"};

std::map<std::string, double> figures_of(const PointResult& result) {
  if (!result.row) {
    if (result.min_bytes == 0) return {};
    return {{"min_bytes", static_cast<double>(result.min_bytes)}};
  }
  const PlanRow& row = *result.row;
  return {{"step_ns", static_cast<double>(row.step)},
          {"layers_ns", static_cast<double>(row.parts.layers)},
          {"bubble_ns", static_cast<double>(row.parts.bubble)},
          {"communication_ns", static_cast<double>(row.parts.communication)},
          {"step_end_ns", static_cast<double>(row.parts.step_end)},
          {"peak_bytes", static_cast<double>(row.peak_bytes)},
          {"memory_limit_bytes", static_cast<double>(row.memory_limit)},
          {"tokens_per_second", row.tokens_per_second},
          {"model_flops_utilization", row.model_flops_utilization},
          {"gpu_hours", result.gpu_hours}};
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// The 22nd field of /proc/PROCESS/stat, which tells a process from a later one of the same number; empty:
/// there is none.
std::string start_of(long process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_ends = text.rfind(')');
  if (name_ends == std::string::npos) return "";
  std::istringstream fields(text.substr(name_ends + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

/// A prepared statement, and the end of it.
class Statement {
 public:
  Statement(sqlite3* base, const std::string& sql) {
    ready_ = sqlite3_prepare_v2(base, sql.c_str(), -1, &statement_, nullptr) == SQLITE_OK;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  [[nodiscard]] bool ready() const { return ready_; }
  void bind(int at, const std::string& text) {
    sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  void bind(int at, double value) { sqlite3_bind_double(statement_, at, value); }
  void bind(int at, std::int64_t value) { sqlite3_bind_int64(statement_, at, value); }
  void unbind(int at) { sqlite3_bind_null(statement_, at); }
  [[nodiscard]] int step() { return sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }
  [[nodiscard]] std::string text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : text;
  }
  [[nodiscard]] std::optional<double> number(int column) const {
    if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
    return sqlite3_column_double(statement_, column);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  bool ready_ = false;
};

}  // namespace

struct StudyStore::State {
  sqlite3* base = nullptr;
  std::string file;
  std::string host = host_name();
  std::int64_t process = ::getpid();
  std::string started = start_of(process);

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { sqlite3_close(base); }

  [[nodiscard]] tl::unexpected<Error> failed() const {
    const int code = sqlite3_errcode(base);
    const bool foreign = code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR;
    return make_error(foreign ? ErrorCode::bad_file : ErrorCode::io,
                      "the store of a study cannot be used: " + std::string(sqlite3_errmsg(base)),
                      {.file = file});
  }
  [[nodiscard]] Expected<void> run(const std::string& sql) const {
    if (sqlite3_exec(base, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
    return {};
  }
  [[nodiscard]] Expected<void> prepare() const;
  [[nodiscard]] Expected<void> create() const;
  [[nodiscard]] Expected<int> number_of(const char* sql) const;
  [[nodiscard]] Expected<void> drop_claims_of_the_dead() const;
  [[nodiscard]] Expected<std::vector<Claim>> claim(std::span<const StudyPoint* const> points) const;
  [[nodiscard]] Expected<void> renew_claims() const;
  [[nodiscard]] Expected<void> write(const std::map<std::string, StoredResult>& results) const;
  /// Runs `work` as one transaction. Returns: its result.
  template <class Work>
  [[nodiscard]] auto in_transaction(const Work& work) const -> decltype(work()) {
    PPSIM_RETURN_IF_ERROR(run(kClaims));  // stores of earlier versions have none
    PPSIM_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
    auto result = work();
    PPSIM_RETURN_IF_ERROR(run(result ? "COMMIT" : "ROLLBACK"));
    return result;
  }
};

Expected<void> StudyStore::State::prepare() const {
  sqlite3_busy_timeout(base, kBusyMilliseconds);
  // The log is written before the file: a result is stored completely or not at all, and readers go on.
  PPSIM_RETURN_IF_ERROR(run("PRAGMA synchronous=NORMAL"));
  PPSIM_ASSIGN_OR_RETURN(const auto version, number_of("PRAGMA user_version"));
  PPSIM_ASSIGN_OR_RETURN(const auto tables, number_of("SELECT count(*) FROM sqlite_master"));
  if (version == kStoreVersion) return {};  // another process may be writing
  if (version != 0 || tables > 0) {
    return make_error(ErrorCode::bad_file, "no store of a study that this version knows",
                      {.file = file,
                       .found = "version " + std::to_string(version),
                       .expected = std::to_string(kStoreVersion)});
  }
  return create();
}

/// Several processes may find an empty file at once, and SQLite does not wait for the change of its journal.
Expected<void> StudyStore::State::create() const {
  Expected<void> made;
  for (int tries = 0; tries < kBusyMilliseconds / kRetryMilliseconds; ++tries) {
    made = run("PRAGMA journal_mode=WAL");
    if (made)
      made = run(std::string("BEGIN IMMEDIATE;") + kTables +
                 ";PRAGMA user_version=" + std::to_string(kStoreVersion) + ";COMMIT");
    if (made || sqlite3_errcode(base) != SQLITE_BUSY) return made;
    sqlite3_sleep(kRetryMilliseconds);
  }
  return made;
}

Expected<int> StudyStore::State::number_of(const char* sql) const {
  Statement statement(base, sql);
  if (!statement.ready() || statement.step() != SQLITE_ROW) return failed();
  return static_cast<int>(statement.number(0).value_or(0));
}

StudyStore::StudyStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
StudyStore::~StudyStore() = default;
StudyStore::StudyStore(StudyStore&&) noexcept = default;
StudyStore& StudyStore::operator=(StudyStore&&) noexcept = default;

Expected<StudyStore> StudyStore::open(const std::string& file, bool must_exist) {
  std::error_code ignored;
  if (must_exist && !std::filesystem::exists(file, ignored)) {
    return make_error(ErrorCode::bad_file, "there is no such store",
                      {.file = file, .expected = "what `ppsim study run` has written"});
  }
  auto state = std::make_unique<State>();
  state->file = file;
  if (sqlite3_open(file.c_str(), &state->base) != SQLITE_OK) return state->failed();
  PPSIM_RETURN_IF_ERROR(state->prepare());
  return StudyStore(std::move(state));
}

StoredResult stored_result(const StudyPoint& point, const PointResult& result) {
  return {.point = nlohmann::json(point.values).dump(),
          .status = std::string(status_name(result.status)),
          .reason = result.reason,
          .figures = figures_of(result),
          .layout = result.row ? layout_text(result.row->layout) : ""};
}

Expected<void> StudyStore::State::write(const std::map<std::string, StoredResult>& results) const {
  std::string columns = "key, point, status, reason, layout";
  std::string places = "?, ?, ?, ?, ?";
  for (const char* name : kFigureColumns) {
    columns += std::string(", ") + name;
    places += ", ?";
  }
  Statement insert(base, "INSERT OR IGNORE INTO points (" + columns + ") VALUES (" + places + ")");
  Statement release(base, "DELETE FROM claims WHERE key = ?");
  if (!insert.ready() || !release.ready()) return failed();
  for (const auto& [key, result] : results) {
    int at = 0;
    for (const std::string& text : {key, result.point, result.status, result.reason, result.layout})
      insert.bind(++at, text);
    for (const char* name : kFigureColumns) {
      const auto found = result.figures.find(name);
      found == result.figures.end() ? insert.unbind(++at) : insert.bind(++at, found->second);
    }
    release.bind(1, key);
    if (insert.step() != SQLITE_DONE || release.step() != SQLITE_DONE) return failed();
    insert.reset();
    release.reset();
  }
  return {};
}

Expected<void> StudyStore::add(const std::map<std::string, StoredResult>& results) {
  return state_->in_transaction([&] { return state_->write(results); });
}

Expected<void> StudyStore::State::drop_claims_of_the_dead() const {
  Statement select(base, "SELECT DISTINCT process, started FROM claims WHERE host = ?");
  Statement drop(base, "DELETE FROM claims WHERE host = ? AND process = ? AND started = ?");
  if (!select.ready() || !drop.ready()) return failed();
  select.bind(1, host);
  std::vector<std::pair<std::int64_t, std::string>> dead;
  while (select.step() == SQLITE_ROW) {
    const auto other = static_cast<std::int64_t>(select.number(0).value_or(0));
    if (start_of(other) != select.text(1)) dead.emplace_back(other, select.text(1));
  }
  for (const auto& [other, since] : dead) {
    drop.bind(1, host);
    drop.bind(2, other);
    drop.bind(3, since);
    if (drop.step() != SQLITE_DONE) return failed();
    drop.reset();
  }
  return {};
}

Expected<std::vector<Claim>> StudyStore::State::claim(std::span<const StudyPoint* const> points) const {
  PPSIM_RETURN_IF_ERROR(drop_claims_of_the_dead());
  Statement known(base, "SELECT 1 FROM points WHERE key = ?");
  Statement take(base,
                 "INSERT INTO claims VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (key) DO UPDATE SET host = ?2, "
                 "process = ?3, started = ?4, until = ?5 WHERE until < ?6 OR until > ?7 OR (host = ?2 AND "
                 "process = ?3 AND "
                 "started = ?4)");
  if (!known.ready() || !take.ready()) return failed();
  std::vector<Claim> answers;
  for (const StudyPoint* point : points) {
    const std::string key = point->key();
    known.bind(1, key);
    const bool done = known.step() == SQLITE_ROW;
    known.reset();
    if (done) {
      answers.push_back(Claim::done);
      continue;
    }
    take.bind(1, key);
    take.bind(2, host);
    take.bind(3, process);
    take.bind(4, started);
    take.bind(5, now() + kLease);
    take.bind(6, now());
    take.bind(7, now() + 2 * kLease);  // of a clock that was ahead
    if (take.step() != SQLITE_DONE) return failed();
    answers.push_back(sqlite3_changes(base) > 0 ? Claim::taken : Claim::of_another);
    take.reset();
  }
  return answers;
}

Expected<std::vector<Claim>> StudyStore::claim(std::span<const StudyPoint* const> points) {
  return state_->in_transaction([&] { return state_->claim(points); });
}

Expected<void> StudyStore::State::renew_claims() const {
  Statement renew(base, "UPDATE claims SET until = ? WHERE host = ? AND process = ? AND started = ?");
  if (!renew.ready()) return failed();
  renew.bind(1, now() + kLease);
  renew.bind(2, host);
  renew.bind(3, process);
  renew.bind(4, started);
  if (renew.step() != SQLITE_DONE) return failed();
  return {};
}

Expected<void> StudyStore::renew_claims() {
  return state_->in_transaction([&] { return state_->renew_claims(); });
}

Expected<std::map<std::string, StoredResult>> StudyStore::results() const {
  std::string columns = "key, point, status, reason, layout";
  for (const char* name : kFigureColumns) columns += std::string(", ") + name;
  Statement select(state_->base, "SELECT " + columns + " FROM points ORDER BY key");
  if (!select.ready()) return state_->failed();
  std::map<std::string, StoredResult> results;
  int code = select.step();
  for (; code == SQLITE_ROW; code = select.step()) {
    StoredResult& result = results[select.text(0)];
    result.point = select.text(1);
    result.status = select.text(2);
    result.reason = select.text(3);
    result.layout = select.text(4);
    for (std::size_t i = 0; i < kFigureColumns.size(); ++i) {
      if (const auto value = select.number(static_cast<int>(i) + 5))
        result.figures[kFigureColumns[i]] = *value;
    }
  }
  if (code != SQLITE_DONE) return state_->failed();
  return results;
}

Expected<void> StudyStore::merge(const std::string& file) {
  // Opened by itself first, so that an error about a file that is no store names this file.
  PPSIM_RETURN_IF_ERROR(open(file, true));
  Statement attach(state_->base, "ATTACH ? AS other");
  attach.bind(1, file);
  if (!attach.ready() || attach.step() != SQLITE_DONE) return state_->failed();
  PPSIM_RETURN_IF_ERROR(state_->run("INSERT OR IGNORE INTO points SELECT * FROM other.points"));
  attach.reset();
  return state_->run("DETACH other");
}

}  // namespace ppsim::planner

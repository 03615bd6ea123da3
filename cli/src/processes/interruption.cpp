#include "interruption.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <memory>

namespace ppsim::cli {
namespace {

/// What the handler writes, which cannot make it: whole texts, of which all stay since it may be reading one.
std::atomic<const std::string*> object_text = nullptr;
std::vector<std::unique_ptr<const std::string>> texts;

void write_text(int file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::atomic<bool> silent = false;

void on_interrupt(int signal) {
  if (!silent) write_interrupted();
  // What the other process writes has to be out first: then mpirun may drop the rest.
  constexpr timespec kMoment{0, 200'000'000};
  if (silent) ::nanosleep(&kMoment, nullptr);
  ::_exit(signal == SIGTERM ? kTerminated : kInterrupted);
}

std::string limit_text, limit_object;

void on_limit(int) {
  write_text(STDERR_FILENO, limit_text);
  write_text(STDOUT_FILENO, limit_object);
  ::_exit(kFailed);
}

void set_object(const Json& known) {
  Json error = error_json({ErrorCode::io, "interrupted"});
  error["code"] = "interrupted";
  Json object = {{"error", std::move(error)}};
  object.update(known);
  object_text = texts.emplace_back(std::make_unique<const std::string>(object.dump(2) + "\n")).get();
}

}  // namespace

void leave_on_interrupt(bool json) {
  if (json) set_object(Json::object());
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

void tell_when_interrupted(const Json& known) {
  if (object_text != nullptr) set_object(known);
}

void write_interrupted() {
  write_text(STDERR_FILENO, "\nppsim: interrupted; no file was left half-written\n");
  if (const std::string* text = object_text) write_text(STDOUT_FILENO, *text);
}

void say_nothing_when_interrupted() { silent = true; }

TimeLimit::TimeLimit(unsigned seconds, const Error& error, const Output& output) {
  limit_text = "ppsim: " + to_string(error) + "\n";
  limit_object = output.json && !output.silent ? Json{{"error", error_json(error)}}.dump(2) + "\n" : "";
  std::signal(SIGALRM, on_limit);
  ::alarm(seconds);
}

TimeLimit::~TimeLimit() { ::alarm(0); }

}  // namespace ppsim::cli

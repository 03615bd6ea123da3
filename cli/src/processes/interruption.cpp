#include "interruption.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <exception>
#include <memory>
#include <new>

namespace ppsim::cli {
namespace {

/// The texts that the handler writes, since it cannot make any; all of them stay, as it may be reading one.
struct Texts {
  std::string err, out;
};
std::atomic<const Texts*> texts = nullptr;
std::vector<std::unique_ptr<const Texts>> all_texts;
bool as_json = false;

void write_text(int file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(as_size(written));
  }
}

std::atomic<bool> silent = false;

void on_interrupt(int signal) {
  if (!silent) write_interrupted();
  // The output of the other process has to be out first: mpirun may drop the rest.
  constexpr timespec kMoment{0, 200'000'000};
  if (silent) ::nanosleep(&kMoment, nullptr);
  ::_exit(signal == SIGTERM ? kTerminated : kInterrupted);
}

/// The message of a failure where no memory is left to make one.
Texts failure_texts(const Error& error, const Output& output) {
  return {output.silent ? "" : "ppsim: " + to_string(error) + "\n",
          output.json && !output.silent ? Json{{"error", error_json(error)}}.dump(2) + "\n" : ""};
}

[[noreturn]] void end_with(const Texts& failure) {
  write_text(STDERR_FILENO, failure.err);
  write_text(STDOUT_FILENO, failure.out);
  ::_exit(kFailed);
}

Texts late, out_of_memory;

void on_limit(int) { end_with(late); }

std::terminate_handler other_ends = nullptr;

void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      end_with(out_of_memory);
    } catch (...) {  // a bug: what was there before says what it is
    }
  }
  other_ends();
}

std::string object_text(const Json& members) {
  Json error = error_json({ErrorCode::io, "interrupted"});
  error["code"] = "interrupted";
  Json object = {{"error", std::move(error)}};
  object.update(members);
  return object.dump(2) + "\n";
}

}  // namespace

void leave_on_interrupt(bool json) {
  as_json = json;
  tell_when_interrupted({});
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

void leave_when_out_of_memory(const Output& output) {
  out_of_memory = failure_texts({ErrorCode::io, "out of memory"}, output);
  other_ends = std::set_terminate(on_terminate);
}

void tell_when_interrupted(const KnownSoFar& known) {
  const Texts told{"\nppsim: interrupted; " + known.note + "\n",
                   as_json ? object_text(known.members) : known.data};
  texts = all_texts.emplace_back(std::make_unique<const Texts>(told)).get();
}

void write_interrupted() {
  const Texts* told = texts;
  write_text(STDERR_FILENO, told->err);
  write_text(STDOUT_FILENO, told->out);
}

void say_nothing_when_interrupted() { silent = true; }

TimeLimit::TimeLimit(unsigned seconds, const Error& error, const Output& output) {
  late = failure_texts(error, output);
  std::signal(SIGALRM, on_limit);
  ::alarm(seconds);
}

TimeLimit::~TimeLimit() { ::alarm(0); }

}  // namespace ppsim::cli

// Runs a command whose programs of ppsim find, in place of CUDA, NCCL, cuBLASLt and cuDNN, one strict fake
// that all of them share: served_gpu [--devices N] COMMAND... Processes of one network namespace are of one
// host, which has N devices (default: 8) of its own. Ends as the command does, but with 1 where the fake held
// something against a program. A signal to end is passed on to the command, whose end is waited for.

#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "served_gpu/service.hpp"
#include "served_gpu/socket.hpp"

namespace ppsim::test {
namespace {

/// A folder for the time of the command.
class Folder {
 public:
  Folder() {
    std::string name = "/var/tmp/ppsim-served-XXXXXX";  // which the hosts of two_hosts share
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made in " + name);
    name_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

int listening_in(const std::string& folder) {
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = socket_address(folder);
  constexpr int kWaiting = 256;
  if (made < 0 || bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(made, kWaiting) != 0)
    throw std::runtime_error("no socket can be made in " + folder);
  return made;
}

pid_t start(char** command, const std::string& folder) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setenv(kFolderVariable, folder.c_str(), 1);
  execvp(*command, command);
  std::cerr << "served_gpu: " << *command << " cannot be started\n";
  std::_Exit(127);
}

/// The command while it runs, which a signal is passed on to; the terminal sends it one of its own.
std::atomic<pid_t> running = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free);

void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  const pid_t command = running;
  if (command > 0 && info->si_code <= 0) kill(command, signal);
}

void pass_signals_on(pid_t command) {
  running = command;
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO;
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) sigaction(one, &action, nullptr);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// Processes that outlive the command are waited for, for some time.
Service::Found settled(Service& service) {
  constexpr std::chrono::milliseconds kNextLook{20};
  constexpr int kLooks = 500;
  Service::Found found = service.found();
  for (int look = 0; look < kLooks && found.running > 0; ++look) {
    std::this_thread::sleep_for(kNextLook);
    found = service.found();
  }
  return found;
}

int verdict(const Service::Found& found, int code) {
  for (const std::string& fault : found.faults) std::cerr << "served_gpu: FAULT: " << fault << '\n';
  if (found.running > 0)
    std::cerr << "served_gpu: FAULT: " << found.running << " processes outlive the command\n";
  const bool good = found.faults.empty() && found.running == 0;
  std::cerr << "served_gpu: " << found.calls << " calls of " << found.processes << " processes in "
            << found.jobs << " jobs, on up to " << found.max_hosts << " hosts; "
            << (good ? "nothing" : "something") << " is held against them\n";
  return good ? code : 1;
}

int run(int devices, char** command) {
  const Folder folder;
  const int socket = listening_in(folder.name());
  const pid_t child = start(command, folder.name());
  pass_signals_on(child);
  Service service(devices, folder.name());
  std::thread([&service, socket] {
    for (;;) {
      const int one = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
      if (one >= 0) std::thread([&service, one] { service.answer(one); }).detach();
    }
  }).detach();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  running = 0;
  const int code = verdict(settled(service), code_of(status));
  std::error_code ignored;
  std::filesystem::remove_all(folder.name(), ignored);
  std::_Exit(code);  // with threads that wait for connections
}

int main_of(int argc, char** argv) {
  constexpr const char* kUsage = "usage: served_gpu [--devices N] COMMAND...\n";
  int devices = 8;
  char** command = argv + 1;
  if (argc > 1 && std::string_view(*command) == "--help") {
    std::cout << kUsage;
    return 0;
  }
  if (argc > 2 && std::string_view(*command) == "--devices") {
    const std::string_view text = command[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), devices);
    if (error != std::errc() || end != text.data() + text.size() || devices < 1) devices = 0;
    command += 2;
  }
  if (devices == 0 || *command == nullptr || **command == '-') {
    std::cerr << kUsage;
    return 2;
  }
  return run(devices, command);
}

}  // namespace
}  // namespace ppsim::test

int main(int argc, char** argv) { return ppsim::test::main_of(argc, argv); }

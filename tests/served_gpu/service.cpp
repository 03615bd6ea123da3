#include "served_gpu/service.hpp"

#include <chrono>
#include <sstream>

#include "served_gpu/socket.hpp"

namespace ppsim::test {
namespace {

constexpr std::chrono::milliseconds kNextLook{1};

/// A program that asks whether something is complete asks again at once when it is not.
bool has_to_wait(Call call, const Message& answer) {
  if (call != Call::cuda_event_query && call != Call::cuda_stream_query) return false;
  return Received(answer.bytes()).get<int>() == kCudaNotReady;
}
bool is_told_only(Call call) {
  return call == Call::push_mark || call == Call::pop_mark || call == Call::leave;
}

}  // namespace

Service::Service(int devices, std::string folder)
    : options_({.devices = devices,
                .memory = std::size_t{1} << 36,
                .jumps = false,
                .pinned_folder = std::move(folder)}),
      device_([this](const std::stop_token& stop) { work(stop); }) {}

Service::~Service() = default;

/// Advances all that can complete, even where no host asks for it.
void Service::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    bool moved = false;
    for (const std::shared_ptr<FakeGpu>& gpu : busy()) moved = moves(*gpu) || moved;
    if (!moved) std::this_thread::sleep_for(kNextLook);
  }
}

std::vector<std::shared_ptr<FakeGpu>> Service::busy() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<FakeGpu>> all;
  for (const auto& [number, job] : jobs_) all.push_back(job->gpu);
  return all;
}

bool Service::moves(FakeGpu& gpu) {
  if (!gpu.advance()) return false;
  progress_.notify_all();
  return true;
}

/// A host that asks lets the devices work, and waits where they cannot.
void Service::let_work(FakeGpu& gpu) {
  if (moves(gpu)) return;
  std::unique_lock lock(progress_mutex_);
  progress_.wait_for(lock, kNextLook);
}

std::pair<std::shared_ptr<Service::Job>, std::shared_ptr<ServedProcess>> Service::come(const Hello& hello) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Job>& job = jobs_[hello.job];
  if (job == nullptr) {
    options_.one_queue = hello.one_queue;
    job = std::make_shared<Job>(Job{.gpu = std::make_shared<FakeGpu>(options_)});
    ++found_.jobs;
  }
  std::shared_ptr<ServedProcess>& process = job->processes[hello.process];
  if (process == nullptr) {
    const int host = job->hosts.try_emplace(hello.host, static_cast<int>(job->hosts.size())).first->second;
    process = std::make_shared<ServedProcess>();
    process->api = job->gpu->api(host, hello.machine == 0 ? "" : std::to_string(hello.machine));
    serve_calls(*process, *job->gpu);
    ++found_.processes;
    found_.max_hosts = std::max(found_.max_hosts, static_cast<int>(job->hosts.size()));
  }
  ++process->connections;
  return {job, process};
}

void Service::go(const Hello& hello, Job& job) {
  const std::scoped_lock lock(mutex_);
  if (--job.processes.at(hello.process)->connections > 0) return;
  job.processes.erase(hello.process);
  if (!job.processes.empty()) return;
  judge(job);
  jobs_.erase(hello.job);
}

/// Frees what a dead process leaves, as the driver does. Aborts its communicators, which ends all that waits
/// on them.
void Service::mourn(Job& job, ServedProcess& process) {
  {
    const std::scoped_lock lock(mutex_);
    if (!job.before_death) job.before_death = job.gpu->faults_so_far();
  }
  const std::set<ncclComm*> left = [&] {
    const std::scoped_lock lock(process.mutex);
    return std::exchange(process.communicators, {});
  }();
  for (ncclComm* const one : left) process.api.nccl.communicator_abort(one);
}

void Service::judge(const Job& job) {
  if (!job.before_death) job.gpu->check_teardown();
  for (const Fault& fault : job.before_death ? *job.before_death : job.gpu->faults()) {
    std::ostringstream text;
    text << fault;
    found_.faults.push_back(text.str());
  }
}

void Service::answer(int socket) {
  std::string bytes(sizeof(Hello), '\0');
  if (receive_message(socket, bytes)) {
    const Hello hello = Received(bytes).get<Hello>();
    const auto [job, process] = come(hello);
    answer_calls(socket, *process, *job->gpu);
    job->gpu->forget_thread();
    if (hello.is_presence && !process->left) mourn(*job, *process);
    go(hello, *job);
  }
  close(socket);
}

void Service::answer_calls(int socket, ServedProcess& process, FakeGpu& gpu) {
  std::string bytes;
  while (receive_message(socket, bytes)) {
    Received message(bytes);
    const Call call = message.get<Call>();
    Message answer;
    process.handlers.at(call)(message, answer);
    ++calls_;
    if (has_to_wait(call, answer)) let_work(gpu);
    if (!is_told_only(call) && !send_message(socket, answer.bytes())) return;
  }
}

Service::Found Service::found() {
  const std::scoped_lock lock(mutex_);
  Found result = found_;
  for (const auto& [number, job] : jobs_) result.running += static_cast<int>(job->processes.size());
  result.calls = calls_;
  return result;
}

}  // namespace ppsim::test

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

/// What can complete completes, also where no host asks for it.
void Service::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::shared_ptr<FakeGpu> gpu = job();
    if (gpu == nullptr || !moves(*gpu)) std::this_thread::sleep_for(kNextLook);
  }
}

std::shared_ptr<FakeGpu> Service::job() {
  const std::scoped_lock lock(mutex_);
  return gpu_;
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

std::shared_ptr<ServedProcess> Service::come(const Hello& hello) {
  const std::scoped_lock lock(mutex_);
  if (gpu_ == nullptr) {
    options_.one_queue = hello.one_queue;
    gpu_ = std::make_shared<FakeGpu>(options_);
    ++found_.jobs;
  }
  std::shared_ptr<ServedProcess>& process = processes_[hello.process];
  if (process == nullptr) {
    const int host = hosts_.try_emplace(hello.host, static_cast<int>(hosts_.size())).first->second;
    process = std::make_shared<ServedProcess>();
    process->api = gpu_->api(host);
    serve_calls(*process, *gpu_);
    ++found_.processes;
    found_.max_hosts = std::max(found_.max_hosts, static_cast<int>(hosts_.size()));
  }
  ++process->connections;
  return process;
}

void Service::go(const Hello& hello, ServedProcess& process) {
  const std::scoped_lock lock(mutex_);
  if (--process.connections > 0) return;
  processes_.erase(hello.process);
  if (processes_.empty()) judge();
}

/// What a process leaves when it dies the driver takes away. Its communicators end what waits on them.
void Service::mourn(ServedProcess& process) {
  {
    const std::scoped_lock lock(mutex_);
    if (!before_death_) before_death_ = gpu_->faults_so_far();
  }
  const std::set<ncclComm*> left = [&] {
    const std::scoped_lock lock(process.mutex);
    return std::exchange(process.communicators, {});
  }();
  for (ncclComm* const one : left) process.api.nccl.communicator_abort(one);
}

void Service::judge() {
  if (!before_death_) gpu_->check_teardown();
  for (const Fault& fault : before_death_ ? *before_death_ : gpu_->faults()) {
    std::ostringstream text;
    text << fault;
    found_.faults.push_back(text.str());
  }
  gpu_.reset();
  hosts_.clear();
  before_death_.reset();
}

void Service::answer(int socket) {
  std::string bytes(sizeof(Hello), '\0');
  if (receive_message(socket, bytes)) {
    const Hello hello = Received(bytes).get<Hello>();
    const std::shared_ptr<ServedProcess> process = come(hello);
    const std::shared_ptr<FakeGpu> gpu = job();
    answer_calls(socket, *process, *gpu);
    gpu->forget_thread();
    if (hello.is_presence && !process->left) mourn(*process);
    go(hello, *process);
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
  result.running = static_cast<int>(processes_.size());
  result.calls = calls_;
  return result;
}

}  // namespace ppsim::test

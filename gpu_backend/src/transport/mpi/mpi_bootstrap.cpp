#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "mpi_transport.hpp"
#include "mpi_world.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "process_group/mpi_module.hpp"
#include "process_group/tcp_bootstrap.hpp"
#include "process_group/transport_maker.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The processes of MPI_COMM_WORLD. MPI tells where process 0 is met and moves the messages of Programs; all
/// else goes over connections of our own, which outlive a hang of MPI and notice a death.
class MpiBootstrap final : public Bootstrap, public TransportMaker {
 public:
  MpiBootstrap(std::unique_ptr<MpiWorld> world, std::unique_ptr<Bootstrap> connections)
      : world_(std::move(world)), connections_(std::move(connections)) {}
  /// Leaves MPI in disorder where processes are gone.
  ~MpiBootstrap() override {
    if (!connections_->all_here()) world_->leave_in_disorder();
  }
  MpiBootstrap(const MpiBootstrap&) = delete;
  MpiBootstrap& operator=(const MpiBootstrap&) = delete;

  [[nodiscard]] int process() const override { return world_->process(); }
  [[nodiscard]] int size() const override { return world_->size(); }
  [[nodiscard]] int local_process() const override { return world_->local_process(); }
  [[nodiscard]] Expected<std::vector<std::string>> allgather(const std::string& bytes,
                                                             Timeout timeout) override {
    return connections_->allgather(bytes, timeout);
  }
  [[nodiscard]] Expected<std::vector<std::string>> gather(const std::string& bytes,
                                                          Timeout timeout) override {
    return connections_->gather(bytes, timeout);
  }
  void send_heartbeat() override { connections_->send_heartbeat(); }
  void note(const std::string& note) override { connections_->note(note); }
  void stop(const Error& error) override { connections_->stop(error); }
  [[nodiscard]] Expected<void> resume() override { return connections_->resume(); }
  void listen(BootstrapListener* listener) override { connections_->listen(listener); }
  void give_up(int process) override { connections_->give_up(process); }
  [[nodiscard]] std::vector<int> gone() const override { return connections_->gone(); }
  [[nodiscard]] Expected<std::vector<ClockOffset>> clock_offsets(Timeout timeout) override {
    return connections_->clock_offsets(timeout);
  }

  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) override {
    return std::make_unique<MpiTransport>(*world_, *this, input, sink);
  }

 private:
  std::unique_ptr<MpiWorld> world_;
  std::unique_ptr<Bootstrap> connections_;
};

/// Where process 0 listens, as MPI carries it to the others.
struct Address {
  std::array<char, NI_MAXHOST> host{};
  int port = 0;  ///< 0: it does not
  std::uint64_t token = 0;
};

/// The first address of this host that others can reach; of one host alone, its own.
std::string reachable_host(bool one_host) {
  constexpr auto kOwn = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (one_host || ::getifaddrs(&all) != 0) return kOwn;
  std::array<char, NI_MAXHOST> text{};
  for (const ifaddrs* a = all; a != nullptr && text[0] == '\0'; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET) continue;
    if ((a->ifa_flags & IFF_UP) == 0 || (a->ifa_flags & IFF_LOOPBACK) != 0) continue;
    ::getnameinfo(a->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  }
  ::freeifaddrs(all);
  return text[0] == '\0' ? kOwn : text.data();
}

std::uint64_t random_token() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U) | random();
}

/// An MPI that does not understand the launcher takes every process for a separate run.
Expected<void> check_launcher(const MpiWorld& world) {
  const auto told = membership_from_environment([](const char* name) -> const char* {
    const char* value = std::getenv(name);
    // By MPI nobody asks where the others are met.
    return value == nullptr && std::string_view(name) == "MASTER_ADDR" ? "localhost" : value;
  });
  if (world.size() > 1) return {};
  const bool by_torchrun = std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
  if (!told && by_torchrun) return tl::unexpected(told.error());
  if (!told || told->size == 1) return {};
  return make_error(ErrorCode::bad_argument, "this MPI library cannot work with this launcher",
                    {.found = "MPI sees 1 process, the launcher has started " + std::to_string(told->size),
                     .expected = "mpirun, or srun --mpi with a plugin that this MPI knows"});
}

Expected<std::unique_ptr<Bootstrap>> connect(const MpiWorld& world) {
  Address address;
  Expected<Socket> listener = Socket();
  if (world.process() == 0) {
    const std::string host = reachable_host(world.local_size() == world.size());
    listener = listen_at(host, 0);
    if (listener) {
      std::strncpy(address.host.data(), host.c_str(), address.host.size() - 1);
      address.port = port_of(*listener);
      address.token = random_token();
    }
  }
  check_mpi(MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  const Membership self{.process = world.process(),
                        .size = world.size(),
                        .local_process = world.local_process(),
                        .host = address.host.data(),
                        .port = address.port,
                        .token = std::to_string(address.token)};
  PPSIM_RETURN_IF_ERROR(listener);
  if (address.port == 0) return make_error(ErrorCode::io, "process 0 cannot be connected to");
  return self.process == 0 ? TcpBootstrap::host(self, *std::move(listener)) : TcpBootstrap::join(self);
}

Expected<std::unique_ptr<Bootstrap>> bootstrap() {
  PPSIM_ASSIGN_OR_RETURN(auto world, MpiWorld::open());
  PPSIM_RETURN_IF_ERROR(check_launcher(*world));
  try {
    PPSIM_ASSIGN_OR_RETURN(auto connections, connect(*world));
    return std::make_unique<MpiBootstrap>(std::move(world), std::move(connections));
  } catch (const BackendError& failure) {
    return tl::unexpected(failure.error());
  }
}

std::string version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data());
  return all.substr(0, all.find(','));
}

}  // namespace
}  // namespace ppsim::gpu_backend

extern "C" const ppsim::gpu_backend::MpiModule* ppsim_mpi_module() {
  using namespace ppsim::gpu_backend;
  static const MpiModule module{mpi_module_build(), bootstrap, version};
  return &module;
}

#pragma once

#include "mpi_world.hpp"
#include "process_group/transport_maker.hpp"

namespace ppsim::gpu_backend {

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
                                                             Patience patience) override {
    return connections_->allgather(bytes, patience);
  }
  [[nodiscard]] Expected<std::vector<std::string>> gather(const std::string& bytes,
                                                          Patience patience) override {
    return connections_->gather(bytes, patience);
  }
  void say_at_work() override { connections_->say_at_work(); }
  void note(const std::string& note) override { connections_->note(note); }
  void stop(const Error& error) override { connections_->stop(error); }
  [[nodiscard]] Expected<void> resume() override { return connections_->resume(); }
  void listen(BootstrapListener* listener) override { connections_->listen(listener); }
  void give_up(int process) override { connections_->give_up(process); }
  [[nodiscard]] std::vector<int> gone() const override { return connections_->gone(); }
  [[nodiscard]] Expected<std::vector<ClockOffset>> clock_offsets(Patience patience) override {
    return connections_->clock_offsets(patience);
  }

  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) override;

 private:
  std::unique_ptr<MpiWorld> world_;
  std::unique_ptr<Bootstrap> connections_;
};

}  // namespace ppsim::gpu_backend

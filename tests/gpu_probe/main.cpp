// Measures on device 0 what the backend takes for granted of CUDA, NCCL and cuBLASLt. Prints one JSON object;
// ends with 1 where there is no device, or a probe failed.

#include <charconv>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/gpu_probe/attention_times.hpp"
#include "support/gpu_probe/kernel_times.hpp"
#include "support/gpu_probe/nccl_answers.hpp"
#include "support/gpu_probe/partition_times.hpp"
#include "support/gpu_probe/product_times.hpp"
#include "support/gpu_probe/queue_answers.hpp"

namespace ppsim::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUsage =
    "usage: ppsim_gpu_probe PROBE [key=number ...]\n"
    "  products [hidden= ffn= vocab= sequence= batch= parts=]  the executor's products against plain calls\n"
    "  attention [hidden= heads= sequence= batch= parts=]  each of cuDNN's plans\n"
    "  kernels [hidden= ffn= sequence= batch=]  element-wise kernels beside a copy of as many bytes\n"
    "  partitions [parts= graphs= work=]  green contexts: the same work on the whole, on a part, on all "
    "parts\n"
    "  waiting [parts= streams= graphs= work=]  kernels beside streams that wait for a number\n"
    "  full-queue [parts= work=]        a thread that launches more than the queue takes, and another one\n"
    "  copies [parts= work=]            copies within the device beside kernels of the same part\n"
    "  calls [parts=]                   host time of the driver's calls\n"
    "  nccl-self [grouped=]             a rank sends to itself\n"
    "  nccl-two-ranks                   two ranks of one process on one device\n"
    "  nccl-pair rank=                  one of two processes on one device\n";

/// key=number of the command line.
class Numbers {
 public:
  /// Returns: false for what is none.
  bool add(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return false;
    int number = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + equals + 1, end, number);
    if (error != std::errc() || stopped != end) return false;
    values_[text.substr(0, equals)] = number;
    return true;
  }
  [[nodiscard]] int get(const std::string& key, int otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second;
  }

 private:
  std::map<std::string, int> values_;
};

Json products(const Numbers& numbers) {
  TransformerConfig config;
  config.hidden = numbers.get("hidden", 2048);
  config.ffn = numbers.get("ffn", 5632);
  config.vocab = numbers.get("vocab", 8192);
  config.sequence = numbers.get("sequence", 1024);
  config.microbatch_size = numbers.get("batch", 1);
  Json rows = Json::array();
  for (const ProductTime& one :
       time_products(this_machine(ProbeLibraries::cublaslt), config, numbers.get("parts", 1))) {
    rows.push_back({{"weights", one.weights},
                    {"action", one.action},
                    {"rows", one.rows},
                    {"columns", one.columns},
                    {"inner", one.inner},
                    {"backend_ns", one.backend_ns},
                    {"plain_ns", one.plain_ns},
                    {"told_ns", one.told_ns},
                    {"best_ns", one.best_ns},
                    {"algorithms", one.algorithms}});
  }
  return {{"parts", numbers.get("parts", 1)}, {"products", rows}};
}

Json attention(const Numbers& numbers) {
  TransformerConfig config;
  config.hidden = numbers.get("hidden", 2048);
  config.heads = numbers.get("heads", 16);
  config.sequence = numbers.get("sequence", 1024);
  config.microbatch_size = numbers.get("batch", 1);
  config.arithmetic = Arithmetic::bf16;
  const int parts = numbers.get("parts", 1);
  Json rows = Json::array();
  for (const AttentionTime& one : time_attention(this_machine(ProbeLibraries::cudnn), config, parts))
    rows.push_back({{"direction", one.direction}, {"plans_ns", one.plans_ns}});
  return {{"parts", parts}, {"attention", rows}};
}

Json kernels(const Numbers& numbers) {
  TransformerConfig config;
  config.hidden = numbers.get("hidden", 2048);
  config.ffn = numbers.get("ffn", 5632);
  config.sequence = numbers.get("sequence", 1024);
  config.microbatch_size = numbers.get("batch", 16);
  const KernelTimes times = time_kernels(this_machine(ProbeLibraries::cuda), config);
  Json rows = Json::array();
  for (const KernelTime& one : times.kernels) {
    rows.push_back(
        {{"kernel", one.kernel}, {"bytes", one.bytes}, {"ns", one.ns}, {"over_copy", times.over_copy(one)}});
  }
  return {{"copy_bytes", times.copy.bytes}, {"copy_ns", times.copy.ns}, {"kernels", rows}};
}

/// This one, with kernels that work as long as is wanted.
ProbeMachine working_machine(const Numbers& numbers) {
  ProbeMachine machine = this_machine(ProbeLibraries::cuda);
  machine.work = numbers.get("work", static_cast<int>(machine.work));
  return machine;
}

Json partitions(const Numbers& numbers) {
  const int parts = numbers.get("parts", 4);
  const bool graphs = numbers.get("graphs", 0) != 0;
  const PartitionTimes times = time_partitions(working_machine(numbers), parts, graphs);
  return {{"parts", parts},
          {"graphs", graphs},
          {"multiprocessors", times.multiprocessors},
          {"whole_ns", times.whole_ns},
          {"alone_ns", times.alone_ns},
          {"together_ns", times.together_ns},
          {"span_ns", times.span_ns},
          {"concurrency", times.concurrency()}};
}

Json waiting(const Numbers& numbers) {
  const WaitingStreams result = run_beside_waiting(working_machine(numbers), numbers.get("parts", 4),
                                                   numbers.get("streams", 16), numbers.get("graphs", 0) != 0);
  return {{"waiting_streams", result.waiting},
          {"kernels_run", result.kernels_run},
          {"all_released", result.all_released}};
}

Json full_queue(const Numbers& numbers) {
  const FullQueue result = fill_queue(working_machine(numbers), numbers.get("parts", 4));
  return {{"launches", result.launches},
          {"held_after", result.held_after},
          {"others_run", result.others_run},
          {"released", result.released}};
}

Json copies(const Numbers& numbers) {
  const CopyTimes times = time_copies(working_machine(numbers), numbers.get("parts", 4));
  return {{"bytes", times.bytes},
          {"whole_ns", times.whole_ns},
          {"copy_ns", times.copy_ns},
          {"work_ns", times.work_ns},
          {"work_beside_ns", times.work_beside_ns},
          {"copy_beside_ns", times.copy_beside_ns}};
}

Json calls(const Numbers& numbers) {
  Json median_ns = Json::object();
  for (const CallTime& one : time_calls(this_machine(ProbeLibraries::cuda), numbers.get("parts", 4)))
    median_ns[one.call] = one.median_ns;
  return {{"median_ns", median_ns}};
}

Json nccl_answer(const std::string& probe, const Numbers& numbers) {
  const ProbeMachine machine = this_machine(ProbeLibraries::nccl);
  int version = 0;
  check_nccl(machine.api.nccl, machine.api.nccl.version(&version), "the version of NCCL");
  Json answer = {{"nccl", version}};
  if (probe == "nccl-self") {
    const bool grouped = numbers.get("grouped", 1) != 0;
    answer["grouped"] = grouped;
    answer["answer"] = send_to_itself(machine, grouped);
  } else if (probe == "nccl-two-ranks") {
    answer["answer"] = two_ranks_on_a_device(machine);
  } else {
    answer["rank"] = numbers.get("rank", 0);
    answer["answer"] = one_of_two_processes(machine, numbers.get("rank", 0));
  }
  return answer;
}

Json run(const std::string& probe, const Numbers& numbers) {
  if (probe == "products") return products(numbers);
  if (probe == "attention") return attention(numbers);
  if (probe == "kernels") return kernels(numbers);
  if (probe == "partitions") return partitions(numbers);
  if (probe == "waiting") return waiting(numbers);
  if (probe == "calls") return calls(numbers);
  if (probe == "full-queue") return full_queue(numbers);
  if (probe == "copies") return copies(numbers);
  if (probe == "nccl-self" || probe == "nccl-two-ranks" || probe == "nccl-pair")
    return nccl_answer(probe, numbers);
  return nullptr;
}

int main_of(int argc, char** argv) {
  Numbers numbers;
  bool good = argc >= 2;
  for (int i = 2; i < argc; ++i) good = numbers.add(argv[i]) && good;
  try {
    Json result;
    if (good) result = run(argv[1], numbers);
    if (result.is_null()) {
      std::cerr << kUsage;
      return 2;
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "ppsim_gpu_probe: " << failure.what() << '\n';
    return 1;
  }
}

}  // namespace
}  // namespace ppsim::test

int main(int argc, char** argv) { return ppsim::test::main_of(argc, argv); }

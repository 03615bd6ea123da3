#include <algorithm>
#include <iterator>

#include "help.hpp"

namespace ppsim::cli {

namespace {

std::vector<HelpTopic> topics_of_files() {
  return {
      {"list", "Make and convert", {}, {"list schedules", "list models --json"}},
      {"generate",
       "Make and convert",
       {"--ranks", "--microbatches", "--chunks", "--set", "--output"},
       {"generate 1f1b --ranks 4 --microbatches 8 -o schedule.json"}},
      {"convert", "Make and convert", {}, {"convert schedule.json schedule.csv"}},
      {"export",
       "Make and convert",
       {"--ranks", "--microbatches", "--chunks", "--layers", "--model", "--cluster", "--costs", "--output"},
       {"export torchtitan zb-v --ranks 4 --microbatches 8 -o titan",
        "export chakra 1f1b --model llama3-8b --cluster dgx-h100 --pp 8 --global-batch-size 64 -o traces"}},
      {"lower",
       "Make and convert",
       {"--ranks", "--microbatches", "--chunks", "--communicators", "--with", "--order", "--output"},
       {"lower 1f1b --ranks 4 --microbatches 8 --with opt -o program.json"}},
  };
}

std::vector<HelpTopic> topics_of_simulations() {
  return {
      {"show",
       "Look",
       {"--ranks", "--microbatches", "--chunks", "--format", "--output", "--width", "--title", "--trace",
        "--unit", "--model"},
       {"show zb-v --ranks 4 --microbatches 8", "show zb-v --ranks 4 --microbatches 8 -o zb-v.svg"}},
      {"simulate",
       "Look",
       {"--ranks", "--microbatches", "--chunks", "--unit", "--costs", "--model", "--cluster", "--trace",
        "--report", "--recompute"},
       {"simulate 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2 --report page.html",
        "simulate 1f1b --model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 "
        "--global-batch-size 128"}},
      {"compare",
       "Look",
       {"--ranks", "--microbatches", "--unit", "--costs", "--model", "--cluster", "--report", "--recompute"},
       {"compare gpipe 1f1b zb-h1 --ranks 4 --microbatches 8 --unit F=1,B=2 --report page.html"}},
      {"sensitivity",
       "Look",
       {"--ranks", "--microbatches", "--by", "--against", "--over", "--added", "--unit", "--costs", "--model",
        "--per"},
       {"sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1",
        "sensitivity 1f1b --against interleaved-1f1b --per rank --over transfers --ranks 4 "
        "--microbatches 8 --unit F=1,B=2,c=0.1"}},
      {"jitter",
       "Look",
       {"--ranks", "--microbatches", "--vary", "--vary-ranks", "--slow-rank", "--slow-link", "--samples",
        "--unit", "--costs", "--model"},
       {"jitter 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1 --vary compute=lognormal:0.05 "
        "--slow-rank 3=1.2"}},
      {"contention",
       "Look",
       {"--ranks", "--microbatches", "--replicas", "--ranks-per-node", "--placement", "--nics", "--nic-speed",
        "--core-speed", "--unit", "--model"},
       {"contention 1f1b --ranks 8 --microbatches 16 --unit F=1,B=2,c=0.5 --ranks-per-node 4 --placement "
        "cyclic"}},
      {"checkpoint",
       "Look",
       {"--model", "--cluster", "--nodes", "--tp", "--pp", "--dp", "--global-batch-size", "--storage",
        "--every"},
       {"checkpoint 1f1b --model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 4 --global-batch-size 32 "
        "--storage 2GB"}},
      {"replay",
       "Look",
       {"--ranks", "--microbatches", "--trace", "--change", "--as", "--output", "--transport", "--unit",
        "--model"},
       {"replay 1f1b --ranks 4 --microbatches 8 --trace run.csv --change rank:3=0.8"}},
      {"chakra", "Look", {}, {"chakra traces --bandwidth 50 --latency 5"}},
  };
}

std::vector<HelpTopic> topics_of_proofs_and_runs() {
  return {
      {"verify",
       "Prove",
       {"--ranks", "--microbatches", "--properties", "--memory-limit", "--unit", "--model", "--transport",
        "--all-microbatches", "--certificate", "--repair"},
       {"verify 1f1b --ranks 4 --microbatches 8", "verify my-order.csv --communicators all"}},
      {"check-certificate",
       "Prove",
       {"--for", "--communicators", "--transport", "--memory-limit", "--unit", "--costs", "--model",
        "--cluster"},
       {"check-certificate program.json proof.json"}},
      {"synthesize",
       "Prove",
       {"--ranks", "--microbatches", "--activation-limit", "--placement", "--unit", "--timeout",
        "--certificate", "--output"},
       {"synthesize --ranks 4 --microbatches 12 --activation-limit 3 --unit F=5,I=6,W=4 -o least.json"}},
      {"run",
       "Run and measure",
       {"--ranks", "--microbatches", "--backend", "--transport", "--steps", "--transformer", "--with",
        "--compare", "--report", "--unit"},
       {"run 1f1b --ranks 2 --microbatches 4 --compare",
        "run 1f1b --ranks 4 --microbatches 8 --backend emulated --unit F=20,B=40,c=2 --report page.html"}},
      {"profile",
       "Run and measure",
       {"--ranks", "--microbatches", "--backend", "--steps", "--transformer", "--output"},
       {"profile 1f1b --ranks 2 --microbatches 8 -o table.json"}},
      {"calibrate",
       "Run and measure",
       {"--trace", "--nccl-tests", "--ranks", "--microbatches", "--model", "--cluster", "--fit", "--output",
        "--costs-out"},
       {"calibrate 1f1b --ranks 4 --microbatches 8 --trace run.csv --costs-out table.json"}},
      {"predict", "Run and measure", {}, {"predict zb-h1:microbatches=8 --ranks 2 --microbatches 8"}},
      {"validate", "Run and measure", {}, {"validate --groups studies/accuracy/data/*.csv"}},
      {"doctor", "This program", {}, {}},
      {"schema", "This program", {}, {"schema", "schema simulate"}},
      {"help", "This program", {}, {"help simulate", "help simulate --all"}},
      {"completion",
       "This program",
       {},
       {"completion bash > ~/.local/share/bash-completion/completions/ppsim"}},
      {"man", "This program", {}, {"man > ppsim.1"}},
  };
}

}  // namespace

std::span<const HelpTopic> help_topics() {
  static const std::vector<HelpTopic> kTopics = [] {
    std::vector<HelpTopic> topics = topics_of_files();
    std::ranges::move(topics_of_simulations(), std::back_inserter(topics));
    std::ranges::move(topics_of_proofs_and_runs(), std::back_inserter(topics));
    return topics;
  }();
  return kTopics;
}

const HelpTopic* help_topic(std::string_view command) {
  const auto topics = help_topics();
  const auto found = std::ranges::find(topics, command, &HelpTopic::command);
  return found == topics.end() ? nullptr : &*found;
}

}  // namespace ppsim::cli

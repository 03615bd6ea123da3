#include <gtest/gtest.h>

#include "ppsim/planner/validate.hpp"

namespace ppsim {
namespace {

constexpr double kGiB = 1073741824.0;

const std::string kPublished =
    "source,model,system,gpus,precision,gbs,mbs,seq,tp,pp,vp,cp,ep,schedule,recompute,metric,value\n";
const std::string kNode =
    "model,layers,tp,pp,dp,cp,ep,seq,microbatches,step_ms,allocated_gib,allocated_mb_per_rank\n";
const std::string kBridge =
    "release,model,system,num_gpus,precision,gbs,mbs,sequence_length,fsdp,tp,pp,cp,vp,ep,tokens_per_s_per_"
    "gpu\n";
const std::string kVtrain =
    "Parameters (billion),# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence "
    "length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";
const std::string kStages =
    "case,pipeline_ranks,microbatches,forward_us_per_rank,backward_us_per_rank,iteration_ms\n";

std::vector<MeasuredRow> rows_of(const std::string& text) {
  const auto rows = read_measurements(text, "m.csv");
  EXPECT_TRUE(rows) << to_string(rows.error());
  return rows.value_or(std::vector<MeasuredRow>(1));
}

Error error_of(const std::string& text) {
  const auto rows = read_measurements(text, "m.csv");
  EXPECT_FALSE(rows);
  return rows ? Error() : rows.error();
}

RunDescription run_of(const MeasuredRow& row) {
  const auto* run = std::get_if<RunDescription>(&row.run);
  const auto* not_run = std::get_if<NotRun>(&row.run);
  EXPECT_NE(run, nullptr) << (not_run != nullptr ? not_run->reason : "");
  return run != nullptr ? *run : RunDescription();
}

std::string reason_of(const MeasuredRow& row) {
  const auto* not_run = std::get_if<NotRun>(&row.run);
  EXPECT_NE(not_run, nullptr);
  return not_run != nullptr ? not_run->reason : "";
}

/// One row of a GPT with this metric.
MeasuredRow gpt_row(const std::string& metric_and_value) {
  return rows_of(
             kPublished +
             "arXiv:2104.04473,\"gpt-1.7b[layers=24,hidden=2304,heads=24,vocab=51200]\",Selene A100-80G,32,"
             "fp16,512,16,2048,1,1,1,1,1,1F1B,full," +
             metric_and_value + "\n")
      .front();
}

TEST(Measurements, OfPapersSayWhatWasRun) {
  const MeasuredRow row = gpt_row("iter_seconds,3.5");
  EXPECT_EQ(row.kind, MeasurementKind::published);
  EXPECT_EQ(row.source, "arXiv:2104.04473");
  EXPECT_EQ(row.line, 2);
  EXPECT_EQ(row.seconds, 3.5);
  const RunDescription run = run_of(row);
  EXPECT_EQ(run.model.name, "gpt-1.7b");
  EXPECT_EQ(run.model.ffn, 4 * 2304);
  EXPECT_EQ(run.model.head_dim, 96);
  EXPECT_EQ(run.model.vocab, 51200);
  EXPECT_EQ(run.cluster, "dgx-a100");
  EXPECT_EQ(run.precision, Precision::fp16);
  EXPECT_EQ(run.data(), 32);
  EXPECT_EQ(run.schedule, "1f1b");
  EXPECT_EQ(run.recompute, Recompute::full);
  EXPECT_EQ(run.stack, "megatron-2021");
}

TEST(Measurements, OfPapersHaveManyMetrics) {
  const double tokens = 512.0 * 2048;
  EXPECT_DOUBLE_EQ(*gpt_row("step_ms,2500").seconds, 2.5);
  EXPECT_DOUBLE_EQ(*gpt_row("tokens/s/GPU,1000").seconds, tokens / 32000);
  EXPECT_DOUBLE_EQ(*gpt_row("tokens/s,1000").seconds, tokens / 1000);
  EXPECT_DOUBLE_EQ(*gpt_row("samples/s,64").seconds, 8);
  EXPECT_DOUBLE_EQ(*gpt_row("samples/s/GPU,2").seconds, 8);
  // 2104.04473, equation 3: four passes over the layers, three over the head, attention unmasked.
  const double l = 24, h = 2304, s = 2048, V = 51200;
  const double counted = 96 * tokens * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
  EXPECT_NEAR(*gpt_row("TFLOP/s/GPU (recompute counted),137").seconds, counted / (32 * 137e12), 1e-9);
  // Three passes, attention masked.
  const double model = 72 * tokens * l * h * h * (1 + s / (12 * h) + V / (12 * l * h));
  EXPECT_NEAR(*gpt_row("model TFLOP/s/GPU,100").seconds, model / (32 * 100e12), 1e-9);
}

TEST(Measurements, TokensAndOperationsOfOneRunAgree) {
  const std::string run =
      "Megatron-Bridge 25.09,llama3-70b,DGX-H100,64,FP8,128,1,8192,4,8,5,1,1,interleaved,,";
  const auto rows = rows_of(kPublished + run + "tokens/s/GPU,1619\n" + run + "model TFLOP/s/GPU,727\n");
  EXPECT_NEAR(*rows[0].seconds, 10.1198, 1e-4);
  EXPECT_NEAR(*rows[1].seconds, *rows[0].seconds, 0.001 * *rows[0].seconds);
  EXPECT_EQ(run_of(rows[0]).stack, "megatron-core");
  EXPECT_EQ(run_of(rows[0]).schedule, "interleaved-1f1b");
  EXPECT_EQ(run_of(rows[0]).chunks, 5);
  EXPECT_EQ(run_of(rows[0]).recompute, std::nullopt);
}

TEST(Measurements, OfMemoryAreThoseOfAGpu) {
  const MeasuredRow row = gpt_row("GiB,40");
  EXPECT_EQ(row.seconds, std::nullopt);
  EXPECT_EQ(row.memory, (std::vector<MeasuredMemory>{{.rank = {}, .bytes = 40 * kGiB}}));
  EXPECT_EQ(gpt_row("allocated GB,40").memory.front().bytes, 40e9);
}

TEST(Measurements, SequenceParallelismFollowsRecomputation) {
  const auto rows = rows_of(kPublished +
                            "arXiv:2205.05198,megatron-22b,dgx-a100,8,fp16,4,4,2048,8,1,,,,1F1B,selective+SP,"
                            "iter_seconds,1.1\n");
  EXPECT_EQ(run_of(rows[0]).recompute, Recompute::selective);
  EXPECT_EQ(run_of(rows[0]).sequence_parallel, true);
  EXPECT_EQ(run_of(rows[0]).stack, "megatron-2022");
}

TEST(Measurements, ColumnsComeInAnyOrderWithOthersBetween) {
  const auto rows = rows_of(
      "value,metric,remark,stack,model,system,source,gpus,precision,gbs,mbs,seq,tp,pp\n"
      "2,iter_seconds,by hand,torchtitan,llama3-8b,h100,here,8,bf16,8,1,8192,1,1\n");
  const RunDescription run = run_of(rows[0]);
  EXPECT_EQ(run.stack, "torchtitan");
  EXPECT_EQ(run.cluster, "dgx-h100");
  EXPECT_EQ(run.chunks, 1);
  EXPECT_EQ(run.expert, 1);
}

TEST(Measurements, ModelsHaveTheirShapesInBracketsOrBehindAColon) {
  const std::string rest = ",dgx-h100,8,bf16,8,1,8192,1,1,1,1,1,1F1B,none,iter_seconds,1\n";
  EXPECT_EQ(run_of(rows_of(kPublished + "x,LLAMA3.1_405B[layers=4]" + rest)[0]).model.layers, 4);
  EXPECT_EQ(run_of(rows_of(kPublished + "x,llama3-8b:layers=5" + rest)[0]).model.layers, 5);
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,llama3-8b[layers=5" + rest)[0]),
            "the shape of llama3-8b has no closing bracket");
  EXPECT_NE(reason_of(rows_of(kPublished + "x,llama3-8b[wings=5]" + rest)[0]).find("unknown model field"),
            std::string::npos);
}

TEST(Measurements, SayWhyARowIsNotSimulated) {
  const std::string rest = ",dgx-h100,8,bf16,8,1,8192,1,1,1,1,1,1F1B,none,iter_seconds,1\n";
  EXPECT_EQ(reason_of(gpt_row("activation GiB,59")).substr(0, 34), "the metric activation GiB is no ti");
  EXPECT_EQ(
      reason_of(rows_of(kPublished + "x,llama3-8b,dgx-h100,,bf16,8,1,8192,1,,,,,,,iter_seconds,1\n")[0]),
      "not given: the number of GPUs, pp");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,Nemotron_3_Nano" + rest)[0]),
            "the model is not a transformer: Nemotron_3_Nano has layers of a state-space model");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,llama9" + rest)[0]),
            "the shape of the model llama9 is not known");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,gpt-6.2b" + rest)[0]),
            "the shape of gpt-6.2b is not given: layers, hidden and heads");
  EXPECT_EQ(
      reason_of(rows_of(kPublished + "x,llama3-8b,tpu-v9,8,bf16,8,1,8192,1,1,,,,,,iter_seconds,1\n")[0]),
      "the system tpu-v9 is not known");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,llama3-8b,h100,8,int3,8,1,8192,1,1,,,,,,iter_seconds,1\n")[0]),
            "the precision int3 is not known");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,llama3-8b,h100,8,bf16,8,1,8192,3,1,,,,,,iter_seconds,1\n")[0]),
            "8 GPUs are no multiple of tp x pp x cp, 3");
  EXPECT_EQ(reason_of(rows_of(kPublished + "x,llama3-8b,h100,8,bf16,9,1,8192,1,1,,,,,,iter_seconds,1\n")[0]),
            "the global batch of 9 is no multiple of dp x microbatch size, 8");
  EXPECT_EQ(
      reason_of(rows_of(kPublished + "x,llama3-8b,h100,64,bf16,64,1,8192,1,64,,,,,,iter_seconds,1\n")[0]),
      "64 stages are too many for 32 layers");
  EXPECT_EQ(
      reason_of(rows_of(kPublished + "x,llama3-8b,h100,8,bf16,1048576,1,8192,1,8,,,,,,iter_seconds,1\n")[0]),
      "8388608 forward passes of a pipeline are too many to simulate, more than 1048576");
}

TEST(Measurements, OfOneNodeHaveMemoryByPipelineRank) {
  const auto rows = rows_of(kNode + "llama3-70b,12,1,2,2,1,1,4096,4,843.0,66.55,100 101 90 89\n" +
                            "deepseek-v3,4,1,1,8,1,8,4096,8,1101.7,104.3,\n");
  EXPECT_DOUBLE_EQ(*rows[0].seconds, 0.843);
  const RunDescription run = run_of(rows[0]);
  EXPECT_EQ(run.model.layers, 12);
  EXPECT_EQ(run.gpus, 4);
  EXPECT_EQ(run.global_batch_size, 8);
  EXPECT_EQ(run.microbatch_size, 1);
  EXPECT_EQ(run.cluster, "dgx-b200");
  EXPECT_EQ(run.stack, "megatron-core-no-overlap");
  EXPECT_EQ(rows[0].memory, (std::vector<MeasuredMemory>{{0, 101.0 * 1048576}, {1, 90.0 * 1048576}}));
  EXPECT_EQ(run_of(rows[1]).model.first_dense_layers, 1);
  EXPECT_EQ(rows[1].memory, (std::vector<MeasuredMemory>{{.rank = {}, .bytes = 104.3 * kGiB}}));
}

TEST(Measurements, OfAbsurdSizesAreNotRun) {
  const std::string most = "1048576,1048576,1048576,1048576";
  EXPECT_EQ(reason_of(rows_of(kNode + "llama3-70b,12," + most + ",1,4096,4,843.0,,\n")[0]),
            "not given: the number of GPUs, the global batch size");
  EXPECT_EQ(
      reason_of(rows_of(kPublished + "x,llama3-8b,h100,8,bf16,8,1,8192,1048576,16,1,1048576,1,1F1B,none,"
                                     "iter_seconds,1\n")[0]),
      "8 GPUs are no multiple of tp x pp x cp, 17592186044416");
}

TEST(Measurements, OfMegatronBridgeHaveLayoutsOfItsRecipes) {
  const auto rows = rows_of(kBridge +
                            "26.06,DeepSeekV3,DGX-GB200,256,MXFP8,4096,1,4096,,1,4,1,4,64,4969\n"
                            "26.04,LLAMA3_70B,DGX-GB200,64,FP8,256,2,8192,64,1,1,1,n/a,n/a,4143\n");
  EXPECT_DOUBLE_EQ(*rows[0].seconds, 4096.0 * 4096 / (4969.0 * 256));
  EXPECT_EQ(run_of(rows[0]).cluster, "gb200-nvl72");
  EXPECT_EQ(run_of(rows[0]).precision, Precision::mxfp8);
  EXPECT_EQ(run_of(rows[0]).layout, layout_text(parse_layout("Et*4|(t*4|)*14tmL").value()));
  EXPECT_EQ(rows[1].source, "Megatron-Bridge 26.04");
  EXPECT_EQ(run_of(rows[1]).fsdp, 64);
  EXPECT_EQ(run_of(rows[1]).chunks, 1);
  EXPECT_EQ(run_of(rows[1]).layout, "");
}

/// Of mixtures those whose recipe has attention in CUDA graphs, or whole iterations since 26.06 in MXFP8;
/// dense models on Blackwell.
TEST(Measurements, OfMegatronBridgeHaveStacksOfItsRecipes) {
  const auto run = [](const std::string& release, const std::string& what) {
    return run_of(rows_of(kBridge + release + "," + what + ",4,4096,,1,1,1,n/a,8,9691\n")[0]);
  };
  const auto stack = [&](const std::string& release, const std::string& what) {
    return run(release, what).stack;
  };
  const std::string qwen = "Qwen3_30B_a3B,DGX-B200,8,MXFP8,512";
  EXPECT_EQ(stack("26.02", qwen), "megatron-core") << "routing alone is in a graph";
  EXPECT_EQ(stack("26.04", qwen), "megatron-bridge");
  EXPECT_EQ(stack("26.06", qwen), "megatron-bridge-graphed-experts");
  EXPECT_EQ(stack("26.06", "Qwen3_30B_a3B,DGX-B200,8,BF16,512"), "megatron-bridge");
  EXPECT_EQ(stack("26.06", "Qwen3_30B_a3B,DGX-H100,16,FP8,1024"), "megatron-core");
  EXPECT_EQ(stack("26.04", "Qwen3_30B_a3B,DGX-GB200,8,MXFP8,512"), "megatron-core");
  EXPECT_EQ(stack("26.04", "LLAMA3_8B,DGX-B200,8,FP8,128"), "megatron-bridge");
  EXPECT_EQ(run("26.04", "GPT OSS 120B,DGX-B200,64,BF16,1280").recompute, Recompute::selective);
  EXPECT_EQ(run("26.06", "GPT OSS 120B,DGX-GB200,64,MXFP8,1280").recompute, std::nullopt);
}

TEST(Measurements, OfVtrainPadTheVocabulary) {
  const auto rows = rows_of(kVtrain + "175,512,1536,2,12288,96,96,2048,4,8,16,54255.9\n");
  const RunDescription run = run_of(rows[0]);
  EXPECT_EQ(run.model.vocab, 50688);  // 99 x 128 x 4
  EXPECT_EQ(run.model.layers, 96);
  EXPECT_EQ(run.data(), 8);
  EXPECT_EQ(run.recompute, Recompute::full);
  EXPECT_EQ(run.stack, "deepspeed");
  EXPECT_EQ(run.cluster, "a100-800gbps");
  EXPECT_DOUBLE_EQ(*rows[0].seconds, 54.2559);
  const Error error = error_of(kVtrain + "175,512,1536,2,12288,96,96,2048,4,4,16,54255.9\n");
  EXPECT_EQ(error.place.column, 10);
  EXPECT_EQ(error.place.found, "4");
}

TEST(Measurements, OfStagesAreTimesAndAShape) {
  const std::string times = "1 2 3 4 5 6 7 8,2 2 2 2 2 2 2 2";
  const auto rows = rows_of(kStages + "fullpp_base_dp1_pp8_tp1_v256k_s2k,8,16," + times + ",0.5\n" +
                            "elsewhere,8,16," + times + ",0.5\n");
  const auto* run = std::get_if<StageRun>(&rows[0].run);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->forward[7], 8000);
  EXPECT_EQ(run->microbatches, 16);
  EXPECT_EQ(run->boundary, 2 * 2048 * 3072);
  EXPECT_EQ(run->parameters, std::int64_t{4} * 12 * 3072 * 3072 + 256000 * 3072);
  EXPECT_DOUBLE_EQ(*rows[0].seconds, 0.0005);
  EXPECT_EQ(reason_of(rows[1]),
            "the case elsewhere does not name vocabulary and sequence as in ..._v256k_s2k");
  EXPECT_EQ(error_of(kStages + "a_v256k_s2k,8,16,1 2 3,1 2 3,5\n").place.column, 4);
  EXPECT_EQ(error_of(kStages + "a_v256k_s2k,1,16,1e10,1,5\n").place.expected, "at most 10^9 microseconds");
}

TEST(Measurements, RefuseFilesThatAreNone) {
  EXPECT_EQ(to_string(error_of("")),
            "m.csv: the file is empty (found nothing, expected a header and a row for each measurement)");
  EXPECT_EQ(error_of(kPublished).message, "the file has no rows");
  const Error header = error_of("rank,time\n0,1\n");
  EXPECT_EQ(header.place.row, 1);
  EXPECT_EQ(header.place.found, "rank,time");
  EXPECT_NE(header.place.expected.find("tokens_per_s_per_gpu"), std::string::npos);
  EXPECT_EQ(error_of("a,b,a\n1,2,3\n").place.column, 3);
  const Error cells = error_of(kStages + "x,8\n");
  EXPECT_EQ(cells.place.row, 2);
  EXPECT_EQ(cells.place.expected, "6");
}

TEST(Measurements, RefuseWhatIsNoNumber) {
  const Error tp = error_of(kNode + "llama3-70b,12,one,2,4,1,1,4096,4,843.0,,\n");
  EXPECT_EQ(to_string(tp),
            "m.csv:2:3: tp: not such a number (found one, expected a whole number from 1 to 1048576)");
  EXPECT_EQ(error_of(kNode + "llama3-70b,12,1,2,4,1,1,4096,4,-3,,\n").place.column, 10);
  EXPECT_EQ(error_of(kNode + "llama3-70b,12,1,2,4,1,1,4096,4,,,\n").message,
            "step_ms: a measurement is missing");
  EXPECT_EQ(error_of(kNode + "llama3-70b,12,1,2,4,1,1,4096,4,8,,1 2 x\n").place.column, 12);
  EXPECT_EQ(error_of(kNode + "llama3-70b,12,1,2,4,1,1,4096,4,8,,1 2 3\n").place.expected,
            "a multiple of 2 numbers");
  const Error stack = error_of("case,pipeline_ranks,microbatches\n1,2,3\n");
  EXPECT_EQ(stack.code, ErrorCode::bad_file);
}

TEST(Measurements, RefuseAStackThatIsNone) {
  const Error error =
      error_of("source,model,system,metric,value,stack\nx,y,z,iter_seconds,1,megatron-2020\n");
  EXPECT_EQ(error.place.column, 6);
  EXPECT_NE(error.message.find("did you mean"), std::string::npos);
  EXPECT_NE(error.place.expected.find("torchtitan"), std::string::npos);
  EXPECT_TRUE(
      read_measurements("source,model,system,metric,value,stack\nx,y,z,iter_seconds,1,own.json\n", "m.csv"));
}

}  // namespace
}  // namespace ppsim

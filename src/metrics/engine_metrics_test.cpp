#include "metrics/engine_metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

namespace pacer::metrics {
namespace {

using std::chrono::milliseconds;

// The exposition, read back: "name{labels}" -> value, and name -> type.
struct Exposition {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;

  // The sample of that name whose labels contain every one of `labels`; NaN when there is not
  // exactly one.
  double value(const std::string& name, const std::vector<std::string>& labels = {}) const {
    double found = NAN;
    int count = 0;
    for (const auto& [series, value] : samples) {
      if (!series.starts_with(name + "{")) continue;
      bool all = true;
      for (const std::string& label : labels) all = all && series.find(label) != std::string::npos;
      if (!all) continue;
      found = value;
      ++count;
    }
    return count == 1 ? found : NAN;
  }

  std::vector<double> bounds(const std::string& histogram) const {
    std::vector<double> out;
    for (const auto& [series, value] : samples) {
      if (!series.starts_with(histogram + "_bucket{")) continue;
      const std::string le = series.substr(series.find("le=\"") + 4);
      if (!le.starts_with("+Inf")) out.push_back(std::stod(le));
    }
    std::sort(out.begin(), out.end());
    return out;
  }
};

Exposition read(const EngineMetrics& metrics, Duration stalled_for = {}) {
  Exposition out;
  std::istringstream lines(metrics.text(stalled_for));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const size_t space = line.rfind(' ');
      out.types[line.substr(7, space - 7)] = line.substr(space + 1);
    } else if (!line.starts_with("#")) {
      const size_t space = line.rfind(' ');
      EXPECT_TRUE(
          out.samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second)
          << "twice: " << line;
    }
  }
  return out;
}

TEST(EngineMetrics, HasVllmsNamesTypesAndLabelsFromTheStart) {
  const EngineMetrics metrics("a-model", 2048, 100, "1.2.3");
  const Exposition e = read(metrics);
  const std::pair<const char*, const char*> expected[] = {
      {"vllm:num_requests_running", "gauge"},
      {"vllm:num_requests_waiting", "gauge"},
      {"vllm:kv_cache_usage_perc", "gauge"},
      {"vllm:cache_config_info", "gauge"},
      {"vllm:num_preemptions_total", "counter"},
      {"vllm:prompt_tokens_total", "counter"},
      {"vllm:generation_tokens_total", "counter"},
      {"vllm:request_success_total", "counter"},
      {"vllm:time_to_first_token_seconds", "histogram"},
      {"vllm:inter_token_latency_seconds", "histogram"},
      {"vllm:request_time_per_output_token_seconds", "histogram"},
      {"vllm:e2e_request_latency_seconds", "histogram"},
      {"vllm:request_queue_time_seconds", "histogram"},
      {"vllm:request_prefill_time_seconds", "histogram"},
      {"vllm:request_decode_time_seconds", "histogram"},
      {"vllm:request_prompt_tokens", "histogram"},
      {"vllm:request_generation_tokens", "histogram"},
      {"vllm:iteration_tokens_total", "histogram"},
      {"pacer_requests_cancelled_total", "counter"},
      {"pacer_requests_rejected_total", "counter"},
      {"pacer_requests_failed_total", "counter"},
      {"pacer_last_step_age_seconds", "gauge"},
      {"pacer_build_info", "gauge"},
  };
  for (const auto& [name, type] : expected) {
    ASSERT_TRUE(e.types.contains(name)) << name;
    EXPECT_EQ(e.types.at(name), type) << name;
  }
  EXPECT_EQ(e.types.size(), std::size(expected));  // and nothing else: docs/metrics.md lists these
  for (const auto& [series, value] : e.samples) {
    EXPECT_NE(series.find("model_name=\"a-model\""), std::string::npos) << series;
    EXPECT_NE(series.find("engine=\"0\""), std::string::npos) << series;
  }
  EXPECT_EQ(e.value("vllm:cache_config_info", {"block_size=\"16\"", "num_gpu_blocks=\"100\""}), 1);
  EXPECT_EQ(e.value("pacer_build_info", {"version=\"1.2.3\""}), 1);
}

TEST(EngineMetrics, HasVllmsBucketBounds) {
  const EngineMetrics metrics("m", 2048, 100, "1");
  const Exposition e = read(metrics);
  using V = std::vector<double>;
  EXPECT_EQ(e.bounds("vllm:time_to_first_token_seconds"),
            (V{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
               1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}));
  const V token = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
  EXPECT_EQ(e.bounds("vllm:inter_token_latency_seconds"), token);
  EXPECT_EQ(e.bounds("vllm:request_time_per_output_token_seconds"), token);
  const V request = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  for (const char* name :
       {"vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds"}) {
    EXPECT_EQ(e.bounds(name), request) << name;
  }
  EXPECT_EQ(e.bounds("vllm:request_prompt_tokens"),
            (V{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}));
  EXPECT_EQ(e.bounds("vllm:iteration_tokens_total"),
            (V{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}));
}

TEST(EngineMetrics, TokenBucketsGoUpToTheModelsLengthInclusive) {
  using V = std::vector<double>;
  EXPECT_EQ(read(EngineMetrics("m", 100, 1, "1")).bounds("vllm:request_generation_tokens"),
            (V{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(read(EngineMetrics("m", 99, 1, "1")).bounds("vllm:request_generation_tokens"),
            (V{1, 2, 5, 10, 20, 50}));
}

TEST(EngineMetrics, AStepSetsTheGaugesAndAddsToTheCounters) {
  EngineMetrics metrics("m", 100, 40, "1");
  const StepCounts counts{.running = 3,
                          .waiting = 2,
                          .blocks_used = 10,
                          .blocks_total = 40,
                          .tokens = 67,
                          .prompt_tokens = 64,
                          .output_tokens = 4,
                          .preemptions = 1};
  metrics.on_step(counts);
  metrics.on_step(counts);
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:num_requests_running"), 3);
  EXPECT_EQ(e.value("vllm:num_requests_waiting"), 2);
  EXPECT_EQ(e.value("vllm:kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(e.value("vllm:prompt_tokens_total"), 128);
  EXPECT_EQ(e.value("vllm:generation_tokens_total"), 8);
  EXPECT_EQ(e.value("vllm:num_preemptions_total"), 2);
  EXPECT_EQ(e.value("vllm:iteration_tokens_total_sum"), 134);
  EXPECT_EQ(e.value("vllm:iteration_tokens_total_count"), 2);
}

TEST(EngineMetrics, IdleSetsGaugesAndObservesNoStep) {
  EngineMetrics metrics("m", 100, 0, "1");
  metrics.on_step({.running = 1, .blocks_used = 1, .blocks_total = 4, .tokens = 5});
  metrics.on_idle({.blocks_total = 0});  // no blocks at all is no division by zero
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:num_requests_running"), 0);
  EXPECT_EQ(e.value("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(e.value("vllm:iteration_tokens_total_count"), 1);
}

TEST(EngineMetrics, TheAgeOfTheLastStepIsWhatTheEngineSays) {
  EngineMetrics metrics("m", 100, 1, "1");
  EXPECT_EQ(read(metrics).value("pacer_last_step_age_seconds"), 0);
  EXPECT_EQ(read(metrics, milliseconds(1500)).value("pacer_last_step_age_seconds"), 1.5);
}

TEST(EngineMetrics, ALatencyOnABoundFallsInThatBoundsBucket) {
  EngineMetrics metrics("m", 100, 1, "1");
  metrics.on_first_token(milliseconds(250));
  metrics.on_first_token(milliseconds(250) + Duration(1));
  metrics.on_inter_token(milliseconds(20));
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:time_to_first_token_seconds_bucket", {"le=\"0.1\""}), 0);
  EXPECT_EQ(e.value("vllm:time_to_first_token_seconds_bucket", {"le=\"0.25\""}), 1);
  EXPECT_EQ(e.value("vllm:time_to_first_token_seconds_bucket", {"le=\"0.5\""}), 2);
  EXPECT_EQ(e.value("vllm:time_to_first_token_seconds_bucket", {"le=\"+Inf\""}), 2);
  EXPECT_EQ(e.value("vllm:inter_token_latency_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(e.value("vllm:inter_token_latency_seconds_sum"), 0.02);
}

TEST(EngineMetrics, AFinishedRequestIsObservedWhole) {
  EngineMetrics metrics("m", 1000, 1, "1");
  metrics.on_finished({.reason = FinishedReason::kLength,
                       .prompt_tokens = 30,
                       .output_tokens = 11,
                       .e2e = milliseconds(3500),
                       .queue_wait = milliseconds(500),
                       .prefill = milliseconds(1000),
                       .decode = milliseconds(2000)});
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:request_success_total", {"finished_reason=\"length\""}), 1);
  EXPECT_EQ(e.value("vllm:request_success_total", {"finished_reason=\"stop\""}), 0);
  EXPECT_EQ(e.value("vllm:e2e_request_latency_seconds_sum"), 3.5);
  EXPECT_EQ(e.value("vllm:request_queue_time_seconds_sum"), 0.5);
  EXPECT_EQ(e.value("vllm:request_prefill_time_seconds_sum"), 1);
  EXPECT_EQ(e.value("vllm:request_decode_time_seconds_sum"), 2);
  EXPECT_EQ(e.value("vllm:request_time_per_output_token_seconds_sum"), 0.2);
  EXPECT_EQ(e.value("vllm:request_prompt_tokens_sum"), 30);
  EXPECT_EQ(e.value("vllm:request_generation_tokens_sum"), 11);
}

TEST(EngineMetrics, OneTokenHasNoTimePerOutputToken) {
  EngineMetrics metrics("m", 100, 1, "1");
  metrics.on_finished({.output_tokens = 1, .e2e = milliseconds(100)});
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:request_time_per_output_token_seconds_count"), 0);
  EXPECT_EQ(e.value("vllm:e2e_request_latency_seconds_count"), 1);
  EXPECT_EQ(e.value("vllm:request_success_total", {"finished_reason=\"stop\""}), 1);
}

TEST(EngineMetrics, EachBadEndIsCountedByItsKind) {
  EngineMetrics metrics("m", 100, 1, "1");
  metrics.on_cancelled();
  metrics.on_failed();
  metrics.on_failed();
  const std::pair<RejectedReason, const char*> reasons[] = {
      {RejectedReason::kQueueFull, "queue_full"},
      {RejectedReason::kTooLong, "too_long"},
      {RejectedReason::kShuttingDown, "shutting_down"},
  };
  for (const auto& [reason, label] : reasons) {
    EXPECT_EQ(read(metrics).value("pacer_requests_rejected_total",
                                  {"reason=\"" + std::string(label) + "\""}),
              0);
    metrics.on_rejected(reason);
    EXPECT_EQ(read(metrics).value("pacer_requests_rejected_total",
                                  {"reason=\"" + std::string(label) + "\""}),
              1);
  }
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("pacer_requests_cancelled_total"), 1);
  EXPECT_EQ(e.value("pacer_requests_failed_total"), 2);
  EXPECT_EQ(e.value("vllm:request_success_total", {"finished_reason=\"abort\""}), 1);
  EXPECT_EQ(e.value("vllm:request_success_total", {"finished_reason=\"error\""}), 2);
}

TEST(EngineMetrics, AnyModelNameIsEscaped) {
  const EngineMetrics metrics("a\"b\\c\nd", 100, 1, "1");
  EXPECT_NE(metrics.text({}).find(R"(model_name="a\"b\\c\nd")"), std::string::npos);
}

TEST(EngineMetrics, NothingIsLostWhileScrapesRunBesideTheEngine) {
  EngineMetrics metrics("m", 100, 10, "1");
  constexpr int kSteps = 2000;
  std::atomic<bool> done = false;
  std::thread scraper([&] {
    while (!done) EXPECT_FALSE(metrics.text({}).empty());
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kSteps; ++i) {
        metrics.on_step({.running = 1, .blocks_total = 10, .tokens = 2, .output_tokens = 1});
        metrics.on_inter_token(milliseconds(1));
        metrics.on_rejected(RejectedReason::kQueueFull);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  scraper.join();
  const Exposition e = read(metrics);
  EXPECT_EQ(e.value("vllm:generation_tokens_total"), 2 * kSteps);
  EXPECT_EQ(e.value("vllm:iteration_tokens_total_count"), 2 * kSteps);
  EXPECT_EQ(e.value("vllm:inter_token_latency_seconds_count"), 2 * kSteps);
  EXPECT_EQ(e.value("pacer_requests_rejected_total", {"queue_full"}), 2 * kSteps);
}

}  // namespace
}  // namespace pacer::metrics

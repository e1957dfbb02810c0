// libFuzzer entry: any bytes, as the body of a request, get exactly one answer of a form that
// clients know, and leave nothing behind in the engine.
//
// Runs what lies between http and a model: the handlers of /v1/completions, /v1/chat/completions,
// /tokenize and /detokenize, the engine, and an executor that follows a script; without sockets and
// threads, so that a step is a call and an input repeats itself. Tokens are bytes
// (text/test_tokenizer.h).
//
// CONTRIBUTING.md says how to run it; tests/fuzz/api/ is what it starts from (with a dictionary of
// names), and what ctest replays.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "api/context.h"
#include "api/endpoints/endpoints.h"
#include "api/error_format.h"
#include "api/json_body.h"
#include "base/check.h"
#include "base/log.h"
#include "http/exchange.h"
#include "text/test_tokenizer.h"
#include "text/utf8.h"

namespace pacer::api {
namespace {

constexpr uint32_t kModelLength = 320;
constexpr uint32_t kBlocks = 40;  // two requests of full length: more are preempted

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}{{ tools | tojson }}"
    "{% if documents %}{{ documents | tojson }}{% endif %}{{ extra }}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class StoppedClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint{std::chrono::hours(1)}; }
};

// Says the prompt again and ends; what is not greedy says all bytes in turn, so that characters
// are cut and stop strings begin everywhere.
class Script final : public sched::Executor {
 public:
  Result<sched::StepResult> run(std::span<const sched::StepItem> items) override {
    sched::StepResult result;
    for (const sched::StepItem& item : items) {
      const sched::Sequence& seq = *item.sequence;
      for (uint32_t i = 0; i < item.score_count; ++i) {
        result.scored.push_back(token(seq.tokens[item.score_first + i], seq));
      }
      if (item.sample) result.tokens.push_back(token(next(seq), seq));
    }
    return result;
  }

 private:
  static TokenId next(const sched::Sequence& seq) {
    const uint32_t k = seq.output_length();
    if (seq.sampling.temperature > 0) {
      return static_cast<TokenId>((seq.sampling.seed + uint64_t{k} * 37) % 258);
    }
    return k < seq.prompt_length ? seq.tokens[k] : text::kTestImEnd;
  }

  static SampledToken token(TokenId id, const sched::Sequence& seq) {
    SampledToken token{.id = id, .logprob = -0.5f, .top = {}};
    for (uint32_t i = 0; i < seq.sampling.logprobs.value_or(0); ++i) {
      token.top.push_back({.id = (id + i) % 258, .logprob = -0.5f - static_cast<float>(i)});
    }
    return token;
  }
};

class Subject {
 public:
  Subject() { log::init({.level = "off"}); }

  // Status and body of the one answer.
  std::pair<int, std::string> answer(Endpoint endpoint, std::string_view body) {
    // HTTP/1.0, so that a stream is not cut into chunks.
    const auto exchange = std::make_shared<http::Exchange>(
        http::Exchange::Framing{
            .http_1_1 = false, .keep_alive = false, .max_buffered_bytes = 1u << 28},
        std::make_shared<const http::ErrorFormatter>(format_http_error), [] {});
    {
      http::Request request;
      request.body = body;
      request.arrived = clock_.now();
      endpoint(context_, request, std::make_shared<http::ResponseWriter>(exchange));
    }
    int steps = 0;
    while (engine_.step()) CHECK(++steps < 100'000, "the engine never comes to an end");
    CHECK(engine_.in_flight() == 0, "{} requests are left", engine_.in_flight());
    CHECK(exchange->complete() && !exchange->gone(), "no answer");
    std::string head, content;
    for (bool last = false; !last;) {
      const auto piece = exchange->take(false);
      CHECK(piece.has_value(), "an answer that is not all there: {}", content);
      CHECK(piece->tail.empty(), "chunks to an HTTP/1.0 client");
      head += piece->head;
      content += piece->body;
      last = piece->last;
    }
    CHECK(head.starts_with("HTTP/1."), "no status line: {}", head);
    return {std::stoi(head.substr(9, 3)), content};
  }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_ = text::test_tokenizer();
  std::unique_ptr<text::ChatTemplate> chat_template_ =
      *text::ChatTemplate::compile(kTemplate, *tokenizer_);
  StoppedClock clock_;
  metrics::EngineMetrics metrics_{"fuzz", kModelLength, kBlocks, "0"};
  Script script_;
  engine::Engine engine_{
      {.max_model_len = kModelLength, .max_queue = 64},
      std::make_unique<sched::Scheduler>(
          sched::SchedulerConfig{.step_tokens_max = 48, .running_max = 4, .block_count = kBlocks},
          *sched::make_policy("fcfs")),
      script_,
      *tokenizer_,
      clock_,
      metrics_};
  ApiContext context_{.engine = engine_,
                      .tokenizer = *tokenizer_,
                      .chat_template = *chat_template_,
                      .metrics = metrics_,
                      .clock = clock_,
                      .model_name = "fuzz",
                      .version = "0",
                      .started_unix_s = 1700000000,
                      .started = clock_.now(),
                      .token_bytes_max = longest_token_bytes(*tokenizer_),
                      .random = RandomSource(1)};
};

bool is_text_or_null(const Json& value) {
  return value.is_null() || (value.is_string() && !value.get_ref<const std::string&>().empty());
}

Json parse(std::string_view text) {
  CHECK(text::is_valid_utf8(text), "an answer that is not UTF-8");
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  CHECK(json.is_object(), "an answer that is no JSON object: {}", text);
  return json;
}

void check_error(const Json& body) {
  CHECK(body.size() == 1 && body.contains("error"), "not an error: {}", body.dump());
  const Json& error = body["error"];
  CHECK(error.size() == 4 && error.value("message", Json()).is_string() &&
            !error["message"].get_ref<const std::string&>().empty() &&
            is_text_or_null(error.value("param", Json(1))) &&
            is_text_or_null(error.value("code", Json(1))) &&
            error.value("type", Json()) == "invalid_request_error",
        "not an error of a request: {}", body.dump());
}

void check_choice_end(const Json& choice) {
  const Json& reason = choice.at("finish_reason");
  CHECK(reason == "stop" || reason == "length", "finish_reason {}", reason.dump());
}

// Each choice opens, ends once, and says nothing afterwards; [DONE] is last.
void check_stream(std::string_view body) {
  std::map<int, bool> ended;
  bool done = false;
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    CHECK(end != std::string_view::npos, "a stream that ends inside an event: {}", body);
    const std::string_view event = body.substr(0, end);
    body.remove_prefix(end + 2);
    CHECK(event.starts_with("data: ") && event.find('\n') == std::string_view::npos,
          "not one line of data: {}", event);
    CHECK(!done, "an event after [DONE]: {}", event);
    done = event == "data: [DONE]";
    if (done) continue;
    const Json chunk = parse(event.substr(6));
    for (const Json& choice : chunk.at("choices")) {
      bool& over = ended[choice.at("index").get<int>()];
      CHECK(!over, "a chunk after the finish_reason: {}", event);
      over = !choice.at("finish_reason").is_null();
      if (over) check_choice_end(choice);
    }
  }
  CHECK(done && !ended.empty(), "a stream without an end");
  for (const auto& [index, over] : ended) CHECK(over, "choice {} never ends", index);
}

void check(Endpoint endpoint, std::string_view body) {
  static Subject subject;
  const auto [status, answer] = subject.answer(endpoint, body);
  if (status == 400 || status == 404) return check_error(parse(answer));
  // Not 429: nothing else is in flight. Not 500, which would say that the fault is ours.
  CHECK(status == 200, "status {}: {}", status, answer);
  if (answer.starts_with("data: ")) return check_stream(answer);
  const Json whole = parse(answer);
  if (!whole.contains("choices")) return;
  CHECK(!whole["choices"].empty(), "an answer without choices");
  for (const Json& choice : whole["choices"]) check_choice_end(choice);
}

void check_everywhere(std::string_view body) {
  for (const Endpoint endpoint : {completions, chat_completions, tokenize, detokenize}) {
    check(endpoint, body);
  }
}

}  // namespace
}  // namespace pacer::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pacer::api::check_everywhere(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

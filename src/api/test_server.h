// For tests only: the whole API over real sockets and a real engine, with an executor that follows
// a script instead of a model.
//
// Tokens are bytes (text/test_tokenizer.h). At temperature 0 the "model" echoes: a completions
// prompt as it is, of a chat the last user message; then it ends, and goes round if it must go on.
// At any other temperature it says a text drawn from the seed, with characters of every length in
// it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/context.h"
#include "api/error_format.h"
#include "api/routes.h"
#include "base/rng.h"
#include "http/server.h"
#include "http/test_client.h"
#include "text/test_tokenizer.h"

namespace pacer::api {

// The system's clock, which a test can set forward. Any thread.
class ForwardClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now() + ahead_.load(); }
  void advance(Duration d) { ahead_.store(ahead_.load() + d); }

 private:
  std::atomic<Duration> ahead_{Duration::zero()};
};

class ScriptedExecutor final : public sched::Executor {
 public:
  Result<sched::StepResult> run(std::span<const sched::StepItem> items) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !paused_ || steps_allowed_ > 0; });
      if (paused_) --steps_allowed_;
      ++steps_;
      for (const sched::StepItem& item : items) {
        if (item.sample && item.sequence->output_length() == fail_at_) {
          return error(Code::kInternal, "scripted failure: secret detail");
        }
      }
    }
    sched::StepResult result;
    for (const sched::StepItem& item : items) {
      for (uint32_t i = 0; i < item.score_count; ++i) {
        result.scored.push_back(with_logprobs(item.sequence->tokens[item.score_first + i],
                                              *item.sequence, item.score_first + i));
      }
      if (item.sample) result.tokens.push_back(next(*item.sequence));
    }
    return result;
  }

  // From here on every step waits for allow() or resume().
  void pause() {
    const std::lock_guard lock(mutex_);
    paused_ = true;
    steps_allowed_ = 0;
  }
  void allow(int steps) {
    const std::lock_guard lock(mutex_);
    steps_allowed_ += steps;
    changed_.notify_all();
  }
  void resume() {
    const std::lock_guard lock(mutex_);
    paused_ = false;
    changed_.notify_all();
  }
  // The step in which a sequence would get its output token `output_length` fails.
  void fail_at(uint32_t output_length) {
    const std::lock_guard lock(mutex_);
    fail_at_ = output_length;
  }
  int steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  static SampledToken next(const sched::Sequence& sequence) {
    const std::vector<TokenId> said = script(sequence);
    const size_t k = sequence.output_length() % (said.size() + 1);
    const TokenId id = k < said.size() ? said[k] : text::kTestImEnd;
    return with_logprobs(id, sequence, sequence.output_length());
  }

  static SampledToken with_logprobs(TokenId id, const sched::Sequence& sequence,
                                    uint32_t position) {
    SampledToken token{.id = id};
    if (!sequence.sampling.logprobs) return token;
    token.logprob = -static_cast<float>(random_uniform(token.id, position));
    for (uint32_t i = 0; i < *sequence.sampling.logprobs; ++i) {
      token.top.push_back(
          {i == 0 ? token.id : (token.id + i) % 256, token.logprob - static_cast<float>(i)});
    }
    return token;
  }

  static std::vector<TokenId> script(const sched::Sequence& sequence) {
    const auto prompt_end = sequence.tokens.begin() + sequence.prompt_length;
    const std::vector<TokenId> prompt(sequence.tokens.begin(), prompt_end);
    return sequence.sampling.temperature > 0 ? drawn(sequence.sampling.seed) : echo(prompt);
  }

  static std::vector<TokenId> echo(const std::vector<TokenId>& prompt) {
    const std::string marker = "user\n";
    std::vector<TokenId> opening = {text::kTestImStart};
    for (const char c : marker) opening.push_back(static_cast<unsigned char>(c));
    const auto found = std::find_end(prompt.begin(), prompt.end(), opening.begin(), opening.end());
    if (found == prompt.end()) return prompt;
    const auto begin = found + static_cast<std::ptrdiff_t>(opening.size());
    return {begin, std::find(begin, prompt.end(), text::kTestImEnd)};
  }

  static std::vector<TokenId> drawn(uint64_t seed) {
    const std::vector<std::string> characters = {"a", "b",  " ",    "\n", "\"",
                                                 "é", "世", "🙂", "\\"};
    Rng rng(seed);
    std::vector<TokenId> tokens;
    for (uint64_t i = 5 + rng.below(30); i > 0; --i) {
      for (const char c : characters[rng.below(characters.size())]) {
        tokens.push_back(static_cast<unsigned char>(c));
      }
    }
    return tokens;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  int steps_allowed_ = 0;
  int steps_ = 0;
  uint32_t fail_at_ = UINT32_MAX;
};

inline constexpr const char* kTestChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

struct TestServerOptions {
  uint32_t running_max = 8;
  uint32_t max_queue = 64;
  uint32_t max_model_len = 512;
  uint32_t blocks = 512;  // of kv::kBlockTokens tokens
  bool adds_bos = false;  // <|im_start|> is the BOS, and prompts get one
  std::string chat_template = kTestChatTemplate;
  Duration ping_every = std::chrono::seconds(60);
  std::vector<std::string> api_keys{};
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {})
      : tokenizer(make_tokenizer(options.adds_bos)),
        chat_template(*text::ChatTemplate::compile(options.chat_template, *tokenizer)),
        metrics("test/model", options.max_model_len, options.blocks, "1.2.3"),
        engine({.max_model_len = options.max_model_len, .max_queue = options.max_queue},
               std::make_unique<sched::Scheduler>(
                   sched::SchedulerConfig{.step_tokens_max = 256,
                                          .running_max = options.running_max,
                                          .block_count = options.blocks},
                   *sched::make_policy("fcfs")),
               executor, *tokenizer, clock, metrics),
        context{.engine = engine,
                .tokenizer = *tokenizer,
                .chat_template = *chat_template,
                .metrics = metrics,
                .clock = clock,
                .model_name = "test/model",
                .version = "1.2.3",
                .keys = *ApiKeys::from(options.api_keys),
                .started_unix_s = 1700000000,
                .started = clock.now(),
                .token_bytes_max = longest_token_bytes(*tokenizer),
                .ping_every = options.ping_every} {
    engine.set_wakeup([this] {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      changed_.notify_one();
    });
    driver_ = std::thread([this] { drive(); });
    http::ServerOptions server_options;
    server_options.port = 0;
    server_options.linger_timeout = std::chrono::milliseconds(200);
    server = *http::Server::start(server_options, make_router(context), format_http_error);
    context.io.attach(server.get());
  }

  ~TestServer() {
    executor.resume();
    server->stop();
    stop_driver();
    context.io.attach(nullptr);
  }

  uint16_t port() const { return server->port(); }

  // One request on a connection of its own.
  http::TestResponse post(std::string_view path, const Json& body) {
    return post_text(path, body.dump());
  }
  http::TestResponse post_text(std::string_view path, std::string_view body) {
    http::TestClient client(port());
    client.request("POST", path, body);
    return client.response();
  }
  http::TestResponse get(std::string_view path) {
    http::TestClient client(port());
    client.request("GET", path);
    return client.response();
  }

  // The sum of a metric over its labels, as a scrape shows it.
  double metric(const std::string& name) const {
    const std::string text = metrics.text(engine.stalled_for());
    double sum = 0;
    size_t at = 0;
    while ((at = text.find("\n" + name, at)) != std::string::npos) {
      at += 1 + name.size();
      if (text[at] != '{' && text[at] != ' ') continue;
      const size_t end = text.find('\n', at);
      sum += std::stod(text.substr(text.rfind(' ', end) + 1));
    }
    return sum;
  }

  void stop_driver() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    if (driver_.joinable()) driver_.join();
  }

  ForwardClock clock;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;
  metrics::EngineMetrics metrics;
  ScriptedExecutor executor;
  engine::Engine engine;
  ApiContext context;
  std::unique_ptr<http::Server> server;

 private:
  static std::unique_ptr<text::Tokenizer> make_tokenizer(bool adds_bos) {
    text::Vocabulary vocabulary = text::test_vocabulary();
    if (adds_bos) vocabulary.bos = text::kTestImStart;
    vocabulary.add_bos = adds_bos;
    return *text::Tokenizer::from_vocabulary(std::move(vocabulary));
  }

  void drive() {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        woken_ = false;
      }
      if (engine.step()) continue;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return woken_ || stopping_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread driver_;
};

// The data of each event of an SSE body; comments are skipped. A line that is neither is a failure.
inline std::vector<std::string> sse_data(const std::string& body) {
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = body.find('\n', begin);
    EXPECT_NE(end, std::string::npos) << "the stream ends inside a line: " << body.substr(begin);
    if (end == std::string::npos) break;
    const std::string line = body.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line.starts_with(":")) continue;
    EXPECT_TRUE(line.starts_with("data: ")) << "not SSE: " << line;
    if (line.starts_with("data: ")) events.push_back(line.substr(6));
  }
  return events;
}

// What a stream says, put together: the shape of one whole answer's choices.
struct StreamedChoice {
  std::string text;
  std::string finish_reason;
  Json token_ids = Json::array();
  Json prompt_ids;  // null unless sent
  Json logprobs;    // lists put together; null unless sent
};
struct StreamedAnswer {
  std::map<uint32_t, StreamedChoice> choices;
  Json usage;  // of the last chunk that had one
  Json error;
  std::string id;
  size_t chunks = 0;
  bool done = false;  // [DONE] came, last
};

inline void append_lists(Json& all, const Json& more) {
  if (more.is_null()) return;
  if (all.is_null()) all = Json::object();
  for (const auto& [name, list] : more.items()) {
    if (!list.is_array()) continue;
    if (!all.contains(name)) all[name] = Json::array();
    for (const Json& entry : list) all[name].push_back(entry);
  }
}

inline StreamedAnswer put_together(const std::string& body) {
  StreamedAnswer answer;
  for (const std::string& data : sse_data(body)) {
    EXPECT_FALSE(answer.done) << "an event after [DONE]: " << data;
    if (data == "[DONE]") {
      answer.done = true;
      continue;
    }
    const Json chunk = Json::parse(data, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(chunk.is_discarded()) << "not JSON, or not UTF-8: " << data;
    if (chunk.is_discarded()) continue;
    if (chunk.contains("error")) {
      answer.error = chunk["error"];
      continue;
    }
    answer.chunks += 1;
    EXPECT_TRUE(answer.id.empty() || answer.id == chunk["id"]) << "the id changed: " << data;
    answer.id = chunk["id"];
    if (chunk.contains("usage") && !chunk["usage"].is_null()) answer.usage = chunk["usage"];
    for (const Json& choice : chunk["choices"]) {
      StreamedChoice& whole = answer.choices[choice["index"]];
      EXPECT_TRUE(whole.finish_reason.empty()) << "a chunk after the finish_reason: " << data;
      whole.text += choice.contains("delta") ? choice["delta"].value("content", "")
                                             : choice["text"].get<std::string>();
      append_lists(whole.logprobs, choice["logprobs"]);
      for (const Json& id : choice.value("token_ids", Json::array())) whole.token_ids.push_back(id);
      const Json& ids_from = chunk.contains("prompt_token_ids") ? chunk : choice;
      if (ids_from.contains("prompt_token_ids")) whole.prompt_ids = ids_from["prompt_token_ids"];
      if (!choice["finish_reason"].is_null()) whole.finish_reason = choice["finish_reason"];
    }
  }
  return answer;
}

inline Json chat_of(std::string_view content, Json more = Json::object()) {
  more["messages"] = Json::array({{{"role", "user"}, {"content", content}}});
  if (!more.contains("temperature")) more["temperature"] = 0;
  return more;
}

inline Json completion_of(std::string_view prompt, Json more = Json::object()) {
  more["prompt"] = prompt;
  if (!more.contains("temperature")) more["temperature"] = 0;
  return more;
}

}  // namespace pacer::api

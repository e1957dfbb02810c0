#include "api/generation_response.h"

#include <fmt/format.h>

#include <utility>

#include "api/error_format.h"
#include "api/json_format.h"
#include "base/check.h"
#include "base/log.h"

namespace pacer::api {

class GenerationResponse::ChoiceSink final : public engine::OutputSink {
 public:
  ChoiceSink(std::shared_ptr<GenerationResponse> response, uint32_t index)
      : response_(std::move(response)), index_(index) {}
  void on_output(engine::OutputEvent event) override {
    response_->on_output(index_, std::move(event));
  }

 private:
  std::shared_ptr<GenerationResponse> response_;
  uint32_t index_;
};

GenerationResponse::GenerationResponse(ApiContext& context, AnswerKind kind,
                                       const GenerationOptions& options, std::string id,
                                       std::shared_ptr<http::ResponseWriter> writer,
                                       std::unique_ptr<RequestLog> log)
    : context_(context),
      kind_(kind),
      options_(options),
      id_(std::move(id)),
      format_(kind, {.id = id_,
                     .created_unix_s = context.unix_now_s(),
                     .model = context.model_name,
                     .fingerprint = "pacer-" + context.version}),
      writer_(std::move(writer)),
      log_(std::move(log)) {}

void GenerationResponse::start(std::vector<engine::GenerateRequest> requests,
                               std::vector<EchoedPrompt> echoes) {
  echoes_ = std::move(echoes);
  if (const Status submitted = submit(std::move(requests)); !submitted) {
    cancel_all();                        // those that were accepted before the one that was not
    const std::lock_guard lock(mutex_);  // others of its choices may be ending
    log_->refuse(*writer_, submitted.error());
    return;
  }
  const std::weak_ptr<GenerationResponse> weak = weak_from_this();
  if (options_.stream) {
    context_.io.after(context_.ping_every, [weak] {
      if (const auto self = weak.lock()) self->begin_by_ping();
    });
  }
  // Last, when all ids are known: a peer that left meanwhile is told at once.
  writer_->on_gone([weak] {
    if (const auto self = weak.lock()) self->cancel_all();
  });
}

Status GenerationResponse::submit(std::vector<engine::GenerateRequest> requests) {
  const std::lock_guard lock(mutex_);
  choices_.reserve(requests.size());
  for (engine::GenerateRequest& request : requests) {
    const auto index = static_cast<uint32_t>(choices_.size());
    Choice choice{.index = index,
                  .prompt_ids = {},
                  .ids = {},
                  .logprobs = LogprobsFormat(kind_, context_.tokenizer)};
    if (options_.return_token_ids) append_json_ids(choice.prompt_ids, request.prompt);
    if (index % options_.n == 0) usage_.prompt_tokens += request.prompt.size();
    if (!echoes_.empty()) {
      const EchoedPrompt& echo = echoes_[index / options_.n];
      choice.logprobs.begin_with(echo);
      if (request.prompt_logprobs) {
        choice.text += choice.logprobs.add_first_of_prompt(request.prompt.front());
      }
    }
    choices_.push_back(std::move(choice));
  }
  choices_open_ = choices_.size();

  for (uint32_t index = 0; index < requests.size(); ++index) {
    auto sink = std::make_shared<ChoiceSink>(shared_from_this(), index);
    Result<engine::RequestId> id =
        context_.engine.submit(std::move(requests[index]), std::move(sink));
    if (!id) {
      state_ = State::kDone;
      Error error = id.error();
      // What the engine calls invalid is a length that it can never hold.
      if (error.code == Code::kInvalidArgument) {
        error.code = Code::kTooLarge;
        error.param = "max_tokens";
      }
      return error;
    }
    requests_.push_back(*id);
  }
  state_ = State::kWaiting;
  return Ok{};
}

void GenerationResponse::on_output(uint32_t index, engine::OutputEvent event) {
  const std::lock_guard lock(mutex_);
  if (event.finish) log_->add(*event.finish, /*counts_prompt=*/index % options_.n == 0);
  if (state_ == State::kDone) return;
  CHECK(state_ != State::kSubmitting, "{}: an event while the mutex of submit() is held", id_);
  if (event.finish && event.finish->reason == engine::FinishReason::kCancelled) {
    state_ = State::kDone;  // nobody listens any more
    return;
  }
  if (event.finish && event.finish->reason == engine::FinishReason::kError) {
    return fail(event.finish->error.value_or(Error{}));
  }
  Choice& choice = choices_[index];
  collect(choice, event);
  if (options_.stream) {
    stream_out(choice);
  } else if (choices_open_ == 0) {
    finish_whole();
  }
}

void GenerationResponse::collect(Choice& choice, engine::OutputEvent& event) {
  for (const SampledToken& token : event.prompt) {
    choice.text += choice.logprobs.add_of_prompt(token);
  }
  if (!event.tokens.empty() || event.finish) choice.text += choice.logprobs.end_prompt();
  choice.text += event.text;
  usage_.output_tokens += event.tokens.size();
  for (const SampledToken& token : event.tokens) {
    if (options_.return_token_ids) choice.ids.push_back(token.id);
    if (options_.sampling.logprobs) choice.logprobs.add(token);
  }
  if (event.finish) {
    choice.finish_reason = engine::to_string(event.finish->reason);
    choices_open_ -= 1;
  }
}

// Tokens without text (half a character, a possible stop string) wait for the chunk that has it, or
// for the last one.
void GenerationResponse::stream_out(Choice& choice) {
  if (state_ == State::kWaiting) begin_stream();
  std::string out;
  if (kind_ == AnswerKind::kChat) {
    if (!choice.opened) {
      format_.append_role_chunk(out, {.index = choice.index, .prompt_ids = choice.prompt_ids},
                                streamed_usage());
      choice.prompt_ids.clear();
    }
    choice.opened = true;
    if (!choice.text.empty()) append_part(out, choice, choice.text, nullptr);
    choice.text.clear();
    if (choice.finish_reason != nullptr) append_part(out, choice, {}, choice.finish_reason);
  } else if (!choice.text.empty() || choice.finish_reason != nullptr) {
    append_part(out, choice, choice.text, choice.finish_reason);
    choice.text.clear();
  }
  if (choices_open_ == 0) return finish_stream(std::move(out));
  if (!out.empty()) writer_->write(std::move(out));
}

// A chunk with all that was collected since the last one.
void GenerationResponse::append_part(std::string& out, Choice& choice, std::string_view text,
                                     const char* finish_reason) {
  std::string ids;
  if (options_.return_token_ids) append_json_ids(ids, choice.ids);
  const std::string logprobs = choice.logprobs.take();
  format_.append_chunk(out,
                       {.index = choice.index,
                        .text = text,
                        .logprobs = logprobs,
                        .token_ids = ids,
                        .prompt_ids = choice.prompt_ids,
                        .finish_reason = finish_reason},
                       streamed_usage());
  choice.ids.clear();
  choice.prompt_ids.clear();
}

std::string GenerationResponse::streamed_usage() const {
  if (options_.continuous_usage_stats) return usage_json(usage_);
  return options_.include_usage ? "null" : "";
}

void GenerationResponse::begin_stream() {
  state_ = State::kStreaming;
  log_->set_status(200);
  writer_->begin_stream(200, {{"Content-Type", "text/event-stream; charset=utf-8"},
                              {"Cache-Control", "no-cache"},
                              {"X-Accel-Buffering", "no"}});  // nginx would hold chunks back
  writer_->ping_every(context_.ping_every, std::string(kSsePing));
}

// A proxy in between should not take a long queue or prefill for a dead server.
void GenerationResponse::begin_by_ping() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return;
  begin_stream();
  writer_->write(std::string(kSsePing));
}

void GenerationResponse::finish_stream(std::string out) {
  if (options_.include_usage) format_.append_usage_chunk(out, usage_);
  out += kSseDone;
  writer_->write(std::move(out));
  writer_->end();
  state_ = State::kDone;
}

void GenerationResponse::finish_whole() {
  std::string choices;
  for (Choice& choice : choices_) {
    std::string ids;
    if (options_.return_token_ids) append_json_ids(ids, choice.ids);
    const std::string logprobs = choice.logprobs.take();
    if (!choices.empty()) choices += ',';
    format_.append_choice(choices, {.index = choice.index,
                                    .text = choice.text,
                                    .logprobs = logprobs,
                                    .token_ids = ids,
                                    .prompt_ids = choice.prompt_ids,
                                    .finish_reason = choice.finish_reason});
  }
  log_->set_status(200);
  writer_->send(json_response(200, format_.whole(choices, choices_.front().prompt_ids, usage_)));
  state_ = State::kDone;
}

// Never a partial 200: either the status says it, or an error event does.
void GenerationResponse::fail(const Error& error) {
  log::error("{} failed: {}", id_, error.message);
  const ApiError shown = to_api_error(error);
  if (state_ == State::kStreaming) {
    writer_->write(sse_event(error_body(shown)) + std::string(kSseDone));
    writer_->end();
  } else {
    log_->set_status(shown.status);
    writer_->send(error_response(shown));
  }
  state_ = State::kDone;
  // The other choices are of no use any more.
  for (const engine::RequestId id : requests_) context_.engine.cancel(id);
}

void GenerationResponse::cancel_all() {
  std::vector<engine::RequestId> requests;
  {
    const std::lock_guard lock(mutex_);
    requests = requests_;
  }
  for (const engine::RequestId id : requests) context_.engine.cancel(id);
}

}  // namespace pacer::api

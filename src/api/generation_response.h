// One HTTP response that the engine feeds: one or several choices, whole or streamed.
//
// Each choice is an engine request with a sink of its own; all of them meet here. on_output() runs
// on the engine thread: it formats what came and queues bytes on the writer, which never blocks.
// The I/O thread holds the same mutex while it submits, so an event that arrives before the last
// submit() returned waits for microseconds and finds the response in one of its states:
//
//   kSubmitting --all accepted--> kWaiting --first event or ping--> kStreaming --> kDone
//        |                           |                                 |
//        +--one refused--> kDone     +--whole answer or failure--> kDone
//
// Until a stream begins, a failure still has its own HTTP status; after that it is an error event.
// Whatever leaves the engine after kDone is dropped: the client has had its last word.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/answer_format.h"
#include "api/context.h"
#include "api/generation_options.h"
#include "api/logprobs_format.h"
#include "api/request_log.h"
#include "engine/engine.h"
#include "http/response_writer.h"

namespace pacer::api {

class GenerationResponse : public std::enable_shared_from_this<GenerationResponse> {
 public:
  GenerationResponse(ApiContext& context, AnswerKind kind, const GenerationOptions& options,
                     std::string id, std::shared_ptr<http::ResponseWriter> writer,
                     std::unique_ptr<RequestLog> log);

  // Submits the requests, choice i being requests[i], and answers through the writer, whatever
  // happens. Choices of the same prompt stand together, options.n of each. echoes: one for each
  // prompt, or none. Called once.
  void start(std::vector<engine::GenerateRequest> requests, std::vector<EchoedPrompt> echoes);

 private:
  enum class State : uint8_t { kSubmitting, kWaiting, kStreaming, kDone };

  struct Choice {
    uint32_t index;
    std::string prompt_ids;    // JSON; emptied when sent
    std::vector<TokenId> ids;  // not yet sent; only with return_token_ids
    LogprobsFormat logprobs;   // not yet sent
    std::string text{};        // not yet sent: all of it where the answer is sent whole
    bool opened = false;       // its first chunk is out
    const char* finish_reason = nullptr;
  };

  class ChoiceSink;

  Status submit(std::vector<engine::GenerateRequest> requests);
  void on_output(uint32_t index, engine::OutputEvent event);
  void collect(Choice& choice, engine::OutputEvent& event);
  void stream_out(Choice& choice);
  void append_part(std::string& out, Choice& choice, std::string_view text,
                   const char* finish_reason);
  std::string streamed_usage() const;
  void begin_stream();
  void begin_by_ping();
  void finish_stream(std::string out);
  void finish_whole();
  void fail(const Error& error);
  void cancel_all();

  ApiContext& context_;
  const AnswerKind kind_;
  const GenerationOptions options_;
  const std::string id_;
  const AnswerFormat format_;
  const std::shared_ptr<http::ResponseWriter> writer_;
  std::vector<EchoedPrompt> echoes_;  // not changed after start()

  std::mutex mutex_;  // of all below
  State state_ = State::kSubmitting;
  std::vector<Choice> choices_;
  std::vector<engine::RequestId> requests_;
  size_t choices_open_ = 0;
  Usage usage_;
  const std::unique_ptr<RequestLog> log_;  // written when the last sink has let go of this
};

}  // namespace pacer::api

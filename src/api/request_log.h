// One line of the log for each generating request: who asked, how it ended, how many tokens and how
// long it took. Never what was asked or answered.
//
// Made by the endpoint, handed on to whoever answers, and written when it ends: so every request
// has exactly one line, whichever way it goes. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/context.h"
#include "engine/output_event.h"
#include "http/message.h"
#include "http/response_writer.h"

namespace pacer::api {

class RequestLog {
 public:
  RequestLog(const ApiContext& context, const http::RequestHead& head, TimePoint arrived);
  ~RequestLog();  // writes the line
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // Sends the error, and remembers its status.
  void refuse(http::ResponseWriter& writer, const Error& error);

  void set_status(int status) { status_ = status; }
  // The end of one engine request: answers with several choices have several, of which one counts
  // the prompt.
  void add(const engine::Finish& finish, bool counts_prompt);

 private:
  const Clock& clock_;
  const std::string id_, method_, path_;
  const std::optional<uint32_t> key_;  // its position
  const TimePoint arrived_;

  int status_ = 0;        // 0: the client left before it was known
  std::string finishes_;  // each reason once: "stop,length"
  uint64_t prompt_tokens_ = 0;
  uint64_t output_tokens_ = 0;
  std::optional<Duration> queue_wait_, ttft_;  // of the choice that was first
};

}  // namespace pacer::api

#include "api/request_log.h"

#include <algorithm>

#include "api/error_format.h"
#include "base/log.h"

namespace pacer::api {

namespace {

void keep_least(std::optional<Duration>& least, const std::optional<Duration>& value) {
  if (value) least = std::min(least.value_or(*value), *value);
}

}  // namespace

RequestLog::RequestLog(const ApiContext& context, const http::RequestHead& head, TimePoint arrived)
    : clock_(context.clock),
      id_(head.id),
      method_(head.method),
      path_(head.path),
      key_(context.keys.position(head.headers)),
      arrived_(arrived) {}

void RequestLog::refuse(http::ResponseWriter& writer, const Error& error) {
  http::Response response = error_response(error);
  status_ = response.status;
  writer.send(std::move(response));
}

void RequestLog::add(const engine::Finish& finish, bool counts_prompt) {
  const std::string_view reason = engine::to_string(finish.reason);
  if (finishes_.find(reason) == std::string::npos) {
    if (!finishes_.empty()) finishes_ += ',';
    finishes_ += reason;
  }
  if (counts_prompt) prompt_tokens_ += finish.prompt_tokens;
  output_tokens_ += finish.output_tokens;
  keep_least(queue_wait_, finish.queue_wait);
  keep_least(ttft_, finish.ttft);
}

RequestLog::~RequestLog() {
  log::Event event("request");
  event.add("id", id_).add("method", method_).add("path", path_);
  if (status_ != 0) event.add("status", static_cast<uint64_t>(status_));
  // Without a finish it was refused, or nobody was there to answer any more.
  event.add("finish", !finishes_.empty() ? finishes_ : status_ != 0 ? "refused" : "cancelled");
  event.add("prompt_tokens", prompt_tokens_).add("output_tokens", output_tokens_);
  if (queue_wait_) event.add_ms("queue_ms", *queue_wait_);
  if (ttft_) event.add_ms("ttft_ms", *ttft_);
  event.add_ms("e2e_ms", clock_.now() - arrived_);
  if (key_) event.add("key", *key_);
  event.write();
}

}  // namespace pacer::api

// The middle part of a connection: from a whole header to the handler.
//
// What can be refused without the body is refused here, in this order: framing that two readers
// might understand differently, CORS preflights, the gate, a body that there is no room for. What
// is refused with a body still to come ends the connection, since that body is not waited for.
#include <fmt/format.h>

#include "base/log.h"
#include "http/connection.h"
#include "http/request_id.h"

namespace pacer::http {
namespace {

using boost::beast::http::field;
using Fields = boost::beast::http::fields;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

std::string_view view(boost::beast::string_view s) {
  return {s.data(), s.size()};
}

// The value of a field that came exactly once, else nullopt.
std::optional<std::string> only_value(const Fields& fields, boost::beast::string_view name) {
  if (fields.count(name) != 1) return std::nullopt;
  return std::string(view(fields[name]));
}

// "http://host/path" -> "/path". Other targets stay as they are.
std::string_view origin_form(std::string_view target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const size_t path = target.find_first_of("/?", scheme + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

struct Complaint {
  int status;
  std::string message;
};

// Where a body ends must be beyond doubt: a proxy before us that sees it elsewhere would take one
// peer's bytes for another's request. Beast has refused Content-Length with Transfer-Encoding.
std::optional<Complaint> framing_complaint(const Fields& fields, bool http_1_1) {
  const size_t hosts = fields.count(field::host);
  if (hosts > 1 || (http_1_1 && hosts == 0)) {
    return Complaint{400, fmt::format("a request has one Host field; this one has {}", hosts)};
  }
  const size_t lengths = fields.count(field::content_length);
  if (lengths > 1 || view(fields[field::content_length]).find(',') != std::string_view::npos) {
    return Complaint{400, "a request has one Content-Length with one number; this one has more"};
  }
  if (const auto encoding = fields.find(field::transfer_encoding); encoding != fields.end()) {
    if (!http_1_1) return Complaint{400, "HTTP/1.0 has no Transfer-Encoding"};
    if (lengths > 0)
      return Complaint{400, "Content-Length and Transfer-Encoding exclude each other"};
    if (fields.count(field::transfer_encoding) > 1 ||
        !equals_ignoring_case(view(encoding->value()), "chunked")) {
      return Complaint{501, "the only Transfer-Encoding understood here is 'chunked'"};
    }
  }
  const auto expect = fields.find(field::expect);
  if (http_1_1 && expect != fields.end() &&
      !equals_ignoring_case(view(expect->value()), "100-continue")) {
    return Complaint{417, "the only Expect understood here is '100-continue'"};
  }
  return std::nullopt;
}

}  // namespace

constexpr uint64_t kUselessBodyMax = 4096;

void Connection::on_header() {
  identify();
  const auto& message = parser_->get();
  framing_.is_head = message.method() == boost::beast::http::verb::head;
  framing_.http_1_1 = message.version() == 11;
  if (auto complaint = framing_complaint(message, framing_.http_1_1)) {
    return fail(complaint->status, std::move(complaint->message));
  }
  std::string why_not;
  if (!fill_head(&why_not)) return fail(400, std::move(why_not));
  // Now, and not when the body is there: a trailer may say "Connection" too.
  framing_.keep_alive = message.keep_alive();

  if (core_->cors.is_preflight(request_)) return answer(core_->cors.preflight(request_));
  {
    const std::lock_guard lock(core_->mutex);
    router_ = core_->router;
  }
  if (refuse_by_gate()) return;
  // What has no use for a body, and often no key, must not take the room of those that have.
  const bool useless = message.method() == boost::beast::http::verb::get || framing_.is_head;
  if (useless && (parser_->chunked() || parser_->content_length().value_or(0) > kUselessBodyMax)) {
    return fail(413, fmt::format("the body of a {} may have {} bytes, and a Content-Length",
                                 std::string(message.method_string()), kUselessBodyMax));
  }
  // A body of known length that cannot fit now need not be sent at all.
  if (parser_->content_length().value_or(0) > core_->body_budget.left()) return fail_body_budget();
  begin_body();
}

// What every response to this request carries, whatever becomes of it. A request whose header is
// not understood has no fields.
void Connection::identify() {
  const Fields none;
  const Fields& fields = parser_ ? static_cast<const Fields&>(parser_->get()) : none;
  std::optional<std::string> id = only_value(fields, "X-Request-Id");
  request_.id = id && is_request_id(*id) ? *std::move(id) : core_->options.make_request_id();
  const std::optional<std::string> origin = only_value(fields, "Origin");
  framing_.fields = {{"X-Request-Id", request_.id}};
  core_->cors.add_fields(origin ? &*origin : nullptr, framing_.fields);
}

bool Connection::fill_head(std::string* why_not) {
  const auto& message = parser_->get();
  request_.method = view(message.method_string());
  request_.target = origin_form(view(message.target()));
  const size_t question = request_.target.find('?');
  std::optional<std::string> path =
      percent_decode(std::string_view(request_.target).substr(0, question));
  if (!path) {
    *why_not = "the path has a '%' that two hex digits do not follow, or an encoded NUL";
    return false;
  }
  request_.path = *std::move(path);
  if (question != std::string::npos) request_.query = request_.target.substr(question + 1);
  for (const auto& f : message) {
    request_.headers.add(std::string(view(f.name_string())), std::string(view(f.value())));
  }
  request_.remote_address = stream_.remote_address();
  return true;
}

// True: the gate answered, and that is all.
bool Connection::refuse_by_gate() {
  std::optional<Response> refusal;
  try {  // ours do not throw; the libraries that a gate calls may
    refusal = router_->refuse(request_);
  } catch (const std::exception& e) {
    log::error("the gate of {} {} threw: {}", request_.method, request_.path, e.what());
    refusal = (*core_->format_error)(500, "the server failed on this request");
  }
  if (!refusal) return false;
  answer(*std::move(refusal));
  return true;
}

void Connection::begin_body() {
  phase_ = Phase::kBody;
  set_deadline(core_->options.body_timeout);
  parser_->eager(true);
  const bool expects = framing_.http_1_1 && parser_->get().count(field::expect) > 0;
  if (expects && !parser_->is_done() && in_.size() == 0) {
    out_ = {};
    out_.head = "HTTP/1.1 100 Continue\r\n\r\n";
    out_sent_ = 0;
    send_continue();
  }
}

void Connection::send_continue() {
  writing_ = true;
  const Stream::Pieces rest = {asio::buffer(out_.head) + out_sent_};
  stream_.async_write_some(rest, [self = shared_from_this()](ErrorCode ec, size_t bytes) {
    self->writing_ = false;
    if (self->phase_ == Phase::kClosed) return;
    if (ec) return self->drop(Parting::kClose);
    self->out_sent_ += bytes;
    if (self->out_sent_ < self->out_.head.size()) return self->send_continue();
    if (self->phase_ != Phase::kResponding) return;
    self->clear_deadline();
    self->flush();  // the response may have become ready meanwhile
  });
}

// After each piece of body. False: there is no room for it, and the request was answered.
bool Connection::take_body_bytes() {
  if (body_share_.grow_to(parser_->get().body().size())) return true;
  fail_body_budget();
  return false;
}

void Connection::fail_body_budget() {
  fail(503,
       fmt::format("the requests being served have bodies of {} bytes together, of {} at most; "
                   "try again when some are done",
                   core_->body_budget.used(), core_->body_budget.limit()));
}

void Connection::dispatch() {
  Request request = std::move(request_);
  request.body = std::move(parser_->get().body());
  parser_.reset();
  // Now that it is whole: a first byte sent early must not jump the queue, and how long a client
  // took to send is not our latency.
  request.arrived = now();
  std::shared_ptr<ResponseWriter> writer = begin_exchange();
  // Ours do not throw; the libraries that a handler calls may.
  try {
    router_->dispatch(request, writer, *core_->format_error);
  } catch (const std::exception& e) {
    log::error("the handler of {} {} threw: {}", request.method, request.path, e.what());
    writer->send((*core_->format_error)(500, "the server failed on this request"));
  }
  request = {};
  body_share_.release();  // the answer may take minutes
}

// A whole answer without a handler. A body that is still to come is not waited for.
void Connection::answer(Response response) {
  if (!parser_->is_done()) framing_.keep_alive = false;
  parser_.reset();
  end_reading();
  begin_exchange()->send(std::move(response));
}

// Answers by itself, and closes afterwards: what else this peer sent cannot be trusted to start at
// a request.
void Connection::fail(int status, std::string message) {
  if (framing_.fields.size() == 0) identify();
  framing_.keep_alive = false;
  parser_.reset();
  body_share_.release();
  end_reading();
  Response response = (*core_->format_error)(status, std::move(message));
  if (status == 503 && response.headers.find("Retry-After") == nullptr) {
    response.headers.add("Retry-After", "1");
  }
  begin_exchange()->send(std::move(response));
}

}  // namespace pacer::http

#include "http/exchange.h"

#include <gtest/gtest.h>

#include "http/response_writer.h"

namespace pacer::http {
namespace {

const auto kFormatter = std::make_shared<const ErrorFormatter>(plain_error);

std::shared_ptr<Exchange> make_exchange(
    Exchange::Framing framing = {}, std::function<void()> wake = [] {}) {
  return std::make_shared<Exchange>(framing, kFormatter, std::move(wake));
}

std::string text(const std::optional<Exchange::Piece>& piece) {
  return piece ? piece->head + piece->body + piece->tail : "nothing";
}
std::string after_head(const std::string& message) {
  return message.substr(message.find("\r\n\r\n") + 4);
}

TEST(Exchange, WritesQueuedMeanwhileLeaveAsOneChunk) {
  auto exchange = make_exchange();
  exchange->begin_stream(200, {{"Content-Type", "text/event-stream"}});
  exchange->write("data: a\n\n");
  exchange->write("data: b\n\n");
  const auto first = exchange->take(true);
  EXPECT_EQ(after_head(text(first)), "12\r\ndata: a\n\ndata: b\n\n\r\n");
  EXPECT_FALSE(first->last);
  exchange->sent(text(first).size());
  EXPECT_EQ(text(exchange->take(true)), "nothing");
  exchange->write("c");
  exchange->end();
  const auto second = exchange->take(true);
  EXPECT_EQ(text(second), "1\r\nc\r\n0\r\n\r\n");
  EXPECT_TRUE(second->last);
  EXPECT_FALSE(second->close);
}

TEST(Exchange, ManyCallsWakeOnce) {
  int wakes = 0;
  auto exchange = make_exchange({}, [&] { ++wakes; });
  exchange->begin_stream(200, {});
  for (int i = 0; i < 100; ++i) exchange->write("x");
  EXPECT_EQ(wakes, 1);
  exchange->take(true);
  exchange->write("x");
  EXPECT_EQ(wakes, 2);
}

TEST(Exchange, ADropWakesEvenWhileAStuckWriteLeavesTheLastWakeUnanswered) {
  int wakes = 0;
  auto slow = make_exchange({.max_buffered_bytes = 10}, [&] { ++wakes; });
  slow->begin_stream(200, {});
  EXPECT_EQ(wakes, 1);
  slow->write(std::string(11, 'x'));
  EXPECT_EQ(wakes, 2);

  auto abandoned = make_exchange({}, [&] { ++wakes; });
  abandoned->begin_stream(200, {});
  abandoned->abandon();
  EXPECT_EQ(wakes, 4);
}

TEST(Exchange, AStreamToAnHttp10PeerEndsWithTheConnection) {
  auto exchange = make_exchange({.http_1_1 = false});
  exchange->begin_stream(200, {});
  exchange->write("raw");
  exchange->end();
  const auto piece = exchange->take(true);
  EXPECT_EQ(after_head(text(piece)), "raw");
  EXPECT_EQ(text(piece).find("chunked"), std::string::npos);
  EXPECT_TRUE(piece->close);
}

TEST(Exchange, AHeadRequestGetsTheLengthAndNoBody) {
  auto whole = make_exchange({.is_head = true});
  whole->send(Response{200, {}, "12345"});
  const std::string message = text(whole->take(true));
  EXPECT_NE(message.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(after_head(message), "");

  auto stream = make_exchange({.is_head = true});
  stream->begin_stream(200, {});
  stream->write("lost");
  stream->end();
  const auto piece = stream->take(true);
  EXPECT_EQ(after_head(text(piece)), "");
  EXPECT_TRUE(piece->last);
}

TEST(Exchange, AHeaderThatWouldSplitTheResponseBecomesA500) {
  const Headers bad{{"X-Id", "1\r\nSet-Cookie: stolen"}};
  auto whole = make_exchange();
  whole->send(Response{200, bad, "secret"});
  auto stream = make_exchange();
  stream->begin_stream(200, bad);
  stream->write("secret");
  stream->end();
  for (const auto& exchange : {whole, stream}) {
    const std::string message = text(exchange->take(true));
    EXPECT_TRUE(message.starts_with("HTTP/1.1 500 ")) << message;
    EXPECT_EQ(message.find("stolen"), std::string::npos);
    EXPECT_EQ(message.find("secret"), std::string::npos);
  }
}

TEST(Exchange, FramingFieldsOfTheCallerAreNotSent) {
  auto exchange = make_exchange();
  exchange->send(Response{200, {{"content-length", "999"}, {"Transfer-Encoding", "gzip"}}, "ab"});
  const std::string message = text(exchange->take(true));
  EXPECT_EQ(message.find("999"), std::string::npos);
  EXPECT_EQ(message.find("gzip"), std::string::npos);
  EXPECT_NE(message.find("Content-Length: 2\r\n"), std::string::npos);
}

TEST(Exchange, FieldsOfEveryResponseReplaceTheCallersButAListIsAddedTo) {
  auto exchange = make_exchange({.fields = {{"X-Request-Id", "ours"}, {"Vary", "Origin"}}});
  exchange->send(Response{200, {{"x-request-id", "theirs"}, {"Vary", "Accept"}}, ""});
  const std::string message = text(exchange->take(true));
  EXPECT_NE(message.find("X-Request-Id: ours\r\n"), std::string::npos) << message;
  EXPECT_EQ(message.find("theirs"), std::string::npos) << message;
  EXPECT_NE(message.find("Vary: Accept\r\n"), std::string::npos) << message;
  EXPECT_NE(message.find("Vary: Origin\r\n"), std::string::npos) << message;
}

TEST(Exchange, OverTheBufferLimitThePeerIsGoneAndAtTheLimitItIsNot) {
  auto exchange = make_exchange({.max_buffered_bytes = 10});
  int gone = 0;
  exchange->on_gone([&] { ++gone; });
  exchange->begin_stream(200, {});
  exchange->write("1234567890");
  EXPECT_FALSE(exchange->gone());
  EXPECT_EQ(exchange->buffered_bytes(), 10u);
  exchange->write("x");
  EXPECT_TRUE(exchange->gone());
  EXPECT_EQ(exchange->buffered_bytes(), 0u);
  EXPECT_EQ(gone, 0);  // never on the caller's thread
  exchange->peer_gone();
  EXPECT_EQ(gone, 1);
  exchange->peer_gone();
  EXPECT_EQ(gone, 1);
}

TEST(Exchange, BytesOnTheirWayCountAsBufferedUntilTheyAreSent) {
  auto exchange = make_exchange({.max_buffered_bytes = 1000});
  exchange->begin_stream(200, {});
  exchange->write(std::string(300, 'x'));
  const auto piece = exchange->take(true);
  const size_t total = text(piece).size();
  EXPECT_EQ(exchange->buffered_bytes(), total);
  exchange->sent(total - 1);
  EXPECT_EQ(exchange->buffered_bytes(), 1u);
}

TEST(Exchange, AWholeResponseMayBeLargerThanTheStreamLimit) {
  auto exchange = make_exchange({.max_buffered_bytes = 10});
  exchange->send(Response{200, {}, std::string(1000, 'x')});
  EXPECT_FALSE(exchange->gone());
  EXPECT_TRUE(exchange->complete());
}

TEST(Exchange, OnGoneAfterwardsRunsAtOnceAndAfterTheEndNever) {
  auto gone = make_exchange();
  gone->peer_gone();
  int calls = 0;
  gone->on_gone([&] { ++calls; });
  EXPECT_EQ(calls, 1);

  auto done = make_exchange();
  done->on_gone([&] { ++calls; });
  done->send(Response{});
  done->peer_gone();
  done->on_gone([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Exchange, ADroppedWriterAnswers500OrCutsItsStream) {
  auto unanswered = make_exchange();
  { const ResponseWriter writer(unanswered); }
  EXPECT_TRUE(text(unanswered->take(true)).starts_with("HTTP/1.1 500 "));

  auto stream = make_exchange();
  {
    ResponseWriter writer(stream);
    writer.begin_stream(200, {});
    writer.write("half");
  }
  EXPECT_TRUE(stream->gone());
  EXPECT_EQ(text(stream->take(true)), "nothing");
}

TEST(Exchange, CallsAfterTheEndDoNothing) {
  auto exchange = make_exchange();
  exchange->begin_stream(200, {});
  exchange->end();
  exchange->write("late");
  exchange->end();
  exchange->send(Response{200, {}, "late"});
  exchange->begin_stream(200, {});
  EXPECT_EQ(text(exchange->take(true)).find("late"), std::string::npos);
}

TEST(Exchange, APingComesOnlyWhenNothingWasWrittenForItsInterval) {
  const auto every = std::chrono::hours(1);
  auto exchange = make_exchange();
  exchange->begin_stream(200, {});
  EXPECT_EQ(exchange->ping(TimePoint{}), std::nullopt);  // none asked for
  exchange->ping_every(every, ": ping\n\n");
  const TimePoint now = std::chrono::steady_clock::now();
  const auto early = exchange->ping(now);
  ASSERT_TRUE(early.has_value());
  EXPECT_LE(*early, every);
  EXPECT_EQ(after_head(text(exchange->take(true))), "");  // head only
  EXPECT_EQ(exchange->ping(now + every), every);
  EXPECT_EQ(text(exchange->take(true)), "8\r\n: ping\n\n\r\n");
  exchange->end();
  EXPECT_EQ(exchange->ping(now + 5 * every), std::nullopt);
}

TEST(ExchangeDeathTest, WritingBeforeTheStreamBeginsIsABug) {
  EXPECT_DEATH(make_exchange()->write("x"), "before begin_stream");
  EXPECT_DEATH(make_exchange()->end(), "before begin_stream");
}

}  // namespace
}  // namespace pacer::http

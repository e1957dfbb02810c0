// Framing cases: what one string of bytes is, as requests and answers. Where two servers could
// disagree, this one refuses.
//
// Each case is sent at once, and again cut into small pieces: the same bytes must mean the same
// however they come. After a refusal nothing that follows may be taken for a request.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/test_server.h"

namespace pacer::http {
namespace {

using std::string_literals::operator""s;

// Answers of a server that says what it understood: "status:body" in order, until it closes.
class Framing : public testing::Test {
 protected:
  Framing() : server_(*Server::start(TestServer::defaults(), routes())) {}

  static Router routes() {
    Router router;
    const Handler tell = [](const Request& request, std::shared_ptr<ResponseWriter> writer) {
      writer->send(
          Response{200, {}, request.method + " " + request.path + " [" + request.body + "]"});
    };
    for (const char* method : {"GET", "POST", "PUT"}) router.add(method, "/{rest...}", tell);
    return router;
  }

  std::vector<std::string> answers(const std::string& bytes, size_t piece) {
    TestClient client(server_->port());
    for (size_t at = 0; at < bytes.size(); at += piece) {
      if (!client.send(std::string_view(bytes).substr(at, piece))) break;
      if (piece < bytes.size()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    client.close_sending_side();
    std::vector<std::string> out;
    for (;;) {
      const TestResponse response = client.response();
      if (response.status == 0) return out;
      if (response.status == 100) continue;
      EXPECT_TRUE(response.complete);
      EXPECT_EQ(response.headers.count("X-Request-Id"), 1u);
      out.push_back(std::to_string(response.status) +
                    (response.status == 200 ? ":" + response.body : ""));
    }
  }

  void expect(const std::string& bytes, const std::vector<std::string>& wanted) {
    SCOPED_TRACE(bytes.substr(0, 400));
    EXPECT_EQ(answers(bytes, bytes.size()), wanted) << "at once";
    EXPECT_EQ(answers(bytes, 7), wanted) << "in pieces";
  }

  std::unique_ptr<Server> server_;
};

const std::string kPost = "POST /p HTTP/1.1\r\nHost: t\r\n";
const std::string kChunked = kPost + "Transfer-Encoding: chunked\r\n";
const std::string kNext = "GET /next HTTP/1.1\r\nHost: t\r\n\r\n";

TEST_F(Framing, ContentLengthIsOneDecimalNumber) {
  expect(kPost + "Content-Length: 3\r\n\r\nabc" + kNext, {"200:POST /p [abc]", "200:GET /next []"});
  expect(kPost + "content-length:003\t \r\n\r\nabc" + kNext,
         {"200:POST /p [abc]", "200:GET /next []"});
  expect(kPost + "Content-Length: 0\r\n\r\n" + kNext, {"200:POST /p []", "200:GET /next []"});
  expect(kPost + "\r\n" + kNext, {"200:POST /p []", "200:GET /next []"});
  for (const char* wrong : {"",
                            "-1",
                            "+3",
                            "3x",
                            "x",
                            "0x3",
                            "3.0",
                            "3e0",
                            "3 3",
                            "3,3",
                            "3, 3",
                            "3,4",
                            ",3",
                            "3,",
                            "\"3\"",
                            "3;a",
                            "18446744073709551616",
                            "99999999999999999999999",
                            "3\x0b",
                            "\xb3"}) {
    expect(kPost + "Content-Length: " + wrong + "\r\n\r\nabc" + kNext, {"400"});
  }
}

TEST_F(Framing, TwoContentLengthsAreRefusedEvenWhenTheyAgree) {
  for (const char* second : {"3", "4", "03", ""}) {
    expect(kPost + "Content-Length: 3\r\ncontent-LENGTH: " + second + "\r\n\r\nabc" + kNext,
           {"400"});
  }
}

TEST_F(Framing, ContentLengthWithTransferEncodingIsRefused) {
  for (const char* encoding : {"chunked", "Chunked", "gzip", "identity", "gzip, chunked"}) {
    const std::string field = "Transfer-Encoding: "s + encoding + "\r\n";
    expect(kPost + "Content-Length: 3\r\n" + field + "\r\n0\r\n\r\n" + kNext, {"400"});
    expect(kPost + field + "Content-Length: 3\r\n" + "\r\n0\r\n\r\n" + kNext, {"400"});
  }
}

TEST_F(Framing, OnlyTheOnePlainChunkedIsUnderstood) {
  expect(kPost + "transfer-encoding: CHUNKED \r\n\r\n0\r\n\r\n" + kNext,
         {"200:POST /p []", "200:GET /next []"});
  for (const char* other : {"gzip", "identity", "chunked, gzip", "gzip, chunked", "chunkedx",
                            "xchunked", "\"chunked\"", "chunked;a=b", "chunked,", ""}) {
    expect(kPost + "Transfer-Encoding: " + other + "\r\n\r\n0\r\n\r\n" + kNext, {"501"});
  }
  expect(kPost + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + kNext,
         {"501"});
  expect(kChunked + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + kNext, {"400"});
  expect(kPost +
             "Transfer-Encoding: \x0b"
             "chunked\r\n\r\n0\r\n\r\n" +
             kNext,
         {"400"});
  expect(kPost + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + kNext, {"400"});
}

TEST_F(Framing, ChunksHaveHexSizesAndEndWithCrLf) {
  expect(kChunked + "\r\n3\r\nabc\r\n00A;x=\"y\";z\r\n0123456789\r\n000\r\n\r\n" + kNext,
         {"200:POST /p [abc0123456789]", "200:GET /next []"});
  for (const char* wrong :
       {"0x3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "-3\r\nabc\r\n0\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n", "g\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nab\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\rabc\r\n0\r\n\r\n",
        "3 x\r\nabc\r\n0\r\n\r\n", "3\r\nabc0\r\n\r\n", "10000000000000000\r\nabc\r\n0\r\n\r\n",
        "3;\"\r\nabc\r\n0\r\n\r\n"}) {
    SCOPED_TRACE(wrong);
    expect(kChunked + "\r\n" + wrong + kNext, {"400"});
  }
  expect(kChunked + "\r\nFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n" + kNext, {"413"});
}

TEST_F(Framing, TrailersAreReadAndDroppedUnlessTheyAreFraming) {
  expect(kChunked + "\r\n1\r\nx\r\n0\r\nA: b\r\nHost: other\r\nExpect: more\r\n\r\n" + kNext,
         {"200:POST /p [x]", "200:GET /next []"});
  expect(kChunked + "\r\n1\r\nx\r\n0\r\nConnection: close\r\n\r\n" + kNext,
         {"200:POST /p [x]", "200:GET /next []"});
  for (const char* framing : {"Content-Length: 5", "Transfer-Encoding: chunked"}) {
    expect(kChunked + "\r\n1\r\nx\r\n0\r\n" + framing + "\r\n\r\n" + kNext, {"400"});
  }
  expect(kChunked + "\r\n1\r\nx\r\n0\r\nno colon\r\n\r\n" + kNext, {"400"});
  expect(kChunked + "\r\n1\r\nx\r\n0\r\nA: b\0c\r\n\r\n"s + kNext, {"400"});
}

TEST_F(Framing, HugeNumbersOfTinyChunksAreJoined) {
  std::string bytes = kChunked + "\r\n";
  constexpr size_t kChunks = 200'000;
  for (size_t i = 0; i < kChunks; ++i) bytes += "1\r\nx\r\n";
  bytes += "0\r\n\r\n" + kNext;
  const std::vector<std::string> got = answers(bytes, bytes.size());
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].size(), "200:POST /p []"s.size() + kChunks);
  EXPECT_EQ(got[1], "200:GET /next []");
}

TEST_F(Framing, LinesEndWithCrLfAndHoldNoControlCharacters) {
  for (const std::string& wrong :
       {"GET /p HTTP/1.1\nHost: t\n\n"s, "GET /p HTTP/1.1\r\nHost: t\nX: y\r\n\r\n"s,
        "GET /p HTTP/1.1\rHost: t\r\n\r\n"s, "GET /p HTTP/1.1\r\nHost: t\r\nX: a\rb\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX: a\nY: b\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX\0: b\r\n\r\n"s, "GET /p\0 HTTP/1.1\r\nHost: t\r\n\r\n"s,
        "GET /p\r HTTP/1.1\r\nHost: t\r\n\r\n"s, "G\0T /p HTTP/1.1\r\nHost: t\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX: a\x01\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX: a\x7f\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\n: b\r\n\r\n"s,
        "GET /p HTTP/1.1\r\nHost: t\r\nX\t: b\r\n\r\n"s}) {
    expect(wrong + kNext, {"400"});
  }
  expect("GET /p HTTP/1.1\r\nHost: t\r\nX:\r\nY: \t\r\nZ: \xff\xfe\r\n\r\n" + kNext,
         {"200:GET /p []", "200:GET /next []"});
}

TEST_F(Framing, AFieldOnSeveralLinesCannotHideFraming) {
  // Deprecated, and understood as one field: what counts is that a length is one for all.
  expect("GET /p HTTP/1.1\r\nHost: t\r\n X: y\r\n\r\n" + kNext,
         {"200:GET /p []", "200:GET /next []"});
  expect("GET /p HTTP/1.1\r\n Host: t\r\n\r\n" + kNext, {"400"});
  expect(kPost + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + kNext,
         {"200:POST /p []", "200:GET /next []"});
  expect(kPost + "Content-Length: 3\r\n 4\r\n\r\nabc" + kNext, {"400"});
}

TEST_F(Framing, TargetsAreOriginAbsoluteOrAsteriskForm) {
  const auto get = [](const std::string& target) {
    return "GET " + target + " HTTP/1.1\r\nHost: t\r\n\r\n";
  };
  expect(get("/a/b?c=/d") + kNext, {"200:GET /a/b []", "200:GET /next []"});
  expect(get("http://other.host:80/a?b"), {"200:GET /a []"});
  expect(get("https://h/a://b"), {"200:GET /a://b []"});
  expect(get("/a?u=http://h/b"), {"200:GET /a []"});
  expect(get("http://host") + get("http://host?q=/a"), {"404", "404"});  // both are "/"
  expect(get("*") + get("host:443") + get("a/b"), {"404", "404", "404"});
  expect(get("//a/../b"), {"200:GET //a/../b []"});  // no path is normalised behind a gate's back
  for (const char* wrong : {"", "/a b", "/%", "/%0", "/%g0", "/%00", "http://h/%00"}) {
    expect(get(wrong) + kNext, {"400"});
  }
}

TEST_F(Framing, VersionsAre10And11) {
  expect("GET /p HTTP/1.0\r\n\r\n" + kNext, {"200:GET /p []"});  // closes
  expect("GET /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + kNext,
         {"200:GET /p []", "200:GET /next []"});
  expect("POST /p HTTP/1.0\r\nContent-Length: 3\r\n\r\nabcdef", {"200:POST /p [abc]"});
  expect("POST /p HTTP/1.0\r\n\r\nabc", {"200:POST /p []"});  // no length, so no body
  expect("POST /p HTTP/1.0\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {"400"});
  expect("POST /p HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
         {"200:POST /p [abc]"});
  expect("GET /p HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n" + kNext, {"200:GET /p []"});
  for (const char* version : {"HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/11", "http/1.1", "HTTP/1",
                              "HTTP/1.10", "HTTPS/1.1", "HTTP/1.1 ", " HTTP/1.1"}) {
    expect("GET /p "s + version + "\r\nHost: t\r\n\r\n" + kNext, {"400"});
  }
}

TEST_F(Framing, ALateExpectationIsMetOnlyWhereTheBodyIsStillToCome) {
  TestClient client(server_->port());
  client.send(kPost + "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  client.send("abc");
  EXPECT_EQ(client.response().body, "POST /p [abc]");
  client.send(kPost + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(client.response().status, 200);
  client.send(kPost + "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(client.response().status, 200);
  client.send(kChunked + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  client.send("1\r\nx\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().body, "POST /p [x]");
}

TEST_F(Framing, MethodsAreTokensAndUnknownOnesAre405) {
  for (const char* method : {"TRACE", "CONNECT", "PATCH", "get", "X-OWN", "!#$%&'*+-.^_`|~"}) {
    expect(method + " /p HTTP/1.1\r\nHost: t\r\n\r\n"s + kNext, {"405", "200:GET /next []"});
  }
  for (const char* wrong : {"G(T", "", " GET", "G\xc3\xa4T"}) {
    expect(wrong + " /p HTTP/1.1\r\nHost: t\r\n\r\n"s + kNext, {"400"});
  }
}

TEST_F(Framing, AnUpgradeIsNotTaken) {
  expect(
      "GET /p HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n" +
          kNext,
      {"200:GET /p []", "200:GET /next []"});
}

TEST_F(Framing, ARequestCutAnywhereIsNoRequest) {
  for (const std::string& whole :
       {kPost + "Content-Length: 3\r\n\r\nabc", kChunked + "\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n"}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(whole.substr(0, size));
      EXPECT_EQ(answers(whole.substr(0, size), SIZE_MAX / 2), std::vector<std::string>{});
    }
  }
}

}  // namespace
}  // namespace pacer::http

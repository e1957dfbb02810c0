#include "http/router.h"

#include <gtest/gtest.h>

#include "http/exchange.h"

namespace pacer::http {
namespace {

const auto kFormatter = std::make_shared<const ErrorFormatter>(plain_error);

// Dispatches without a socket and returns the raw response.
std::string ask(const Router& router, std::string method, std::string target) {
  Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.path = percent_decode(request.target.substr(0, request.target.find('?'))).value();
  auto exchange = std::make_shared<Exchange>(Exchange::Framing{}, kFormatter, [] {});
  router.dispatch(request, std::make_shared<ResponseWriter>(exchange), plain_error);
  const std::optional<Exchange::Piece> piece = exchange->take(true);
  return piece ? piece->head + piece->body : "nothing";
}

Handler answer(std::string name) {
  return [name](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    writer->send(Response{200, {}, name + "(" + request.path_param + ")"});
  };
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.ends_with(end);
}
bool is_status(const std::string& text, int status) {
  return text.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

TEST(Router, ExactWinsOverASegmentAndASegmentOverTheRest) {
  Router router;
  router.add("GET", "/v1/models/{id...}", answer("rest"));
  router.add("GET", "/v1/models/{id}", answer("segment"));
  router.add("GET", "/v1/models/known", answer("exact"));
  EXPECT_PRED2(ends_with, ask(router, "GET", "/v1/models/known?x=/y"), "\r\n\r\nexact()");
  EXPECT_PRED2(ends_with, ask(router, "GET", "/v1/models/other?x=/y"), "\r\n\r\nsegment(other)");
  EXPECT_PRED2(ends_with, ask(router, "GET", "/v1/models/org/name"), "\r\n\r\nrest(org/name)");
  EXPECT_PRED2(is_status, ask(router, "GET", "/v1/models/"), 404);  // a placeholder is not empty
  EXPECT_PRED2(is_status, ask(router, "GET", "/v1/models"), 404);
}

TEST(Router, AnEncodedSlashStaysInsideItsSegment) {
  Router router;
  router.add("GET", "/v1/models/{id}", answer("segment"));
  EXPECT_PRED2(ends_with, ask(router, "GET", "/v1/models/org%2Fname"), "segment(org/name)");
  EXPECT_PRED2(ends_with, ask(router, "GET", "/v1/%6dodels/x%20y"), "segment(x y)");
  EXPECT_PRED2(is_status, ask(router, "GET", "/v1/models/org/name"), 404);
}

TEST(Router, AWrongMethodIsA405ThatSaysWhichAreAllowed) {
  Router router;
  router.add("GET", "/a", answer("get"));
  router.add("POST", "/a", answer("post"));
  router.add("POST", "/b", answer("post"));
  const std::string a = ask(router, "DELETE", "/a");
  EXPECT_PRED2(is_status, a, 405);
  EXPECT_NE(a.find("Allow: GET, POST, HEAD, OPTIONS\r\n"), std::string::npos) << a;
  const std::string b = ask(router, "HEAD", "/b");
  EXPECT_PRED2(is_status, b, 405);
  EXPECT_NE(b.find("Allow: POST, OPTIONS\r\n"), std::string::npos) << b;
  EXPECT_PRED2(is_status, ask(router, "get", "/a"), 405);  // methods are case-sensitive
}

TEST(Router, OptionsIsAnsweredWithAllowUnlessARouteSaysOtherwise) {
  Router router;
  router.add("GET", "/a", answer("get"));
  router.add("OPTIONS", "/b", answer("own"));
  const std::string a = ask(router, "OPTIONS", "/a");
  EXPECT_PRED2(is_status, a, 204);
  EXPECT_NE(a.find("Allow: GET, HEAD, OPTIONS\r\n"), std::string::npos) << a;
  EXPECT_EQ(a.find("Content-Length"), std::string::npos) << a;
  EXPECT_PRED2(ends_with, ask(router, "OPTIONS", "/b"), "own()");
  EXPECT_PRED2(is_status, ask(router, "OPTIONS", "*"), 204);
  EXPECT_PRED2(is_status, ask(router, "OPTIONS", "/c"), 404);
}

TEST(Router, AnErrorMessageShowsAnyPathSafely) {
  const Router router;
  const std::string response = ask(router, "GET", "/\xff\x80" + std::string(5000, 'x'));
  EXPECT_PRED2(is_status, response, 404);
  EXPECT_NE(response.find("there is no /??xxx"), std::string::npos);
  EXPECT_LT(response.size(), 1000u);
}

TEST(RouterDeathTest, AMisplacedPlaceholderOrASecondHandlerIsABug) {
  Router router;
  router.add("GET", "/a", answer("1"));
  EXPECT_DEATH(router.add("GET", "/a", answer("2")), "added twice");
  EXPECT_DEATH(router.add("GET", "/a/{id}/b", answer("2")), "last segment");
  EXPECT_DEATH(router.add("GET", "/a/x{id}", answer("2")), "last segment");
}

}  // namespace
}  // namespace pacer::http

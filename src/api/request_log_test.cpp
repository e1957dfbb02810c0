// One line for each generating request, whichever way it goes, and never a word of what it says.
#include "api/request_log.h"

#include <gtest/gtest.h>

#include <sstream>

#include "api/test_server.h"
#include "base/log.h"

namespace pacer::api {
namespace {

const std::string kMarker = "zebra-lighthouse-4711";

class RequestLogLines : public testing::Test {
 protected:
  RequestLogLines() {
    log::init({.level = "debug", .format = log::Format::kJson});
    testing::internal::CaptureStderr();
    server_ = std::make_unique<TestServer>(
        TestServerOptions{.running_max = 2, .max_queue = 2, .api_keys = {"k1", "k2"}});
  }
  ~RequestLogLines() override {
    if (server_ != nullptr) lines();
    log::init({});
  }

  void post(const std::string& path, const Json& body) {
    http::TestClient client(server_->port());
    const std::string id = "X-Request-Id: r" + std::to_string(posted_++) + "\r\n";
    client.request("POST", path, body.dump(), "Authorization: Bearer k2\r\n" + id);
    client.response();
  }

  // With the server gone, all is written.
  std::vector<Json> lines() {
    server_.reset();
    all_ = testing::internal::GetCapturedStderr();
    std::vector<Json> requests;
    std::istringstream text(all_);
    for (std::string line; std::getline(text, line);) {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(json.is_object()) << line;
      if (json.is_object() && json["message"] == "request") requests.push_back(json);
    }
    // A line is written when the answer is gone, so one of a later request may be before it.
    std::stable_sort(requests.begin(), requests.end(),
                     [](const Json& a, const Json& b) { return a["id"] < b["id"]; });
    EXPECT_EQ(all_.find(kMarker), std::string::npos) << all_;
    EXPECT_EQ(all_.find("k2"), std::string::npos) << all_;
    return requests;
  }

  std::unique_ptr<TestServer> server_;
  std::string all_;
  int posted_ = 0;
};

TEST_F(RequestLogLines, SayWhoAskedAndHowItEnded) {
  post("/v1/completions", completion_of(kMarker, {{"max_tokens", 5}}));
  const std::vector<Json> requests = lines();
  ASSERT_EQ(requests.size(), 1u);
  const Json& line = requests[0];
  EXPECT_EQ(line["id"], "r0");
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["finish"], "length");
  EXPECT_EQ(line["prompt_tokens"], kMarker.size());
  EXPECT_EQ(line["output_tokens"], 5);
  EXPECT_EQ(line["key"], 2);
  EXPECT_LE(line["queue_ms"], line["ttft_ms"]);
  EXPECT_LE(line["ttft_ms"], line["e2e_ms"]);
}

TEST_F(RequestLogLines, AnAnswerWithSeveralChoicesIsOne) {
  post("/v1/completions",
       {{"prompt", {kMarker, "ab"}}, {"n", 2}, {"max_tokens", 2}, {"temperature", 0}});
  const std::vector<Json> requests = lines();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0]["prompt_tokens"], kMarker.size() + 2);
  EXPECT_EQ(requests[0]["output_tokens"], 8);
  EXPECT_EQ(requests[0]["finish"], "length");
}

TEST_F(RequestLogLines, AreThereForStreamsChatsAndWhatIsRefused) {
  post("/v1/chat/completions", chat_of(kMarker, {{"stream", true}}));
  post("/v1/completions", completion_of("x", {{"temperature", kMarker}}));
  post("/v1/completions", completion_of("x", {{"model", kMarker}}));
  post("/v1/completions", completion_of(std::string(600, 'x')));
  server_->context.draining.store(true);
  post("/v1/completions", completion_of(kMarker));
  const std::vector<Json> requests = lines();
  ASSERT_EQ(requests.size(), 5u);
  const int statuses[] = {200, 400, 404, 400, 503};
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i]["status"], statuses[i]) << requests[i];
    EXPECT_EQ(requests[i]["finish"], i == 0 ? "stop" : "refused") << requests[i];
  }
}

TEST_F(RequestLogLines, AreThereForFailuresBeforeAndWithinAStream) {
  server_->executor.fail_at(1);
  post("/v1/completions", completion_of(kMarker));
  post("/v1/completions", completion_of(kMarker, {{"stream", true}}));
  const std::vector<Json> requests = lines();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0]["status"], 500);
  EXPECT_EQ(requests[1]["status"], 200);  // as it was sent
  for (const Json& line : requests) EXPECT_EQ(line["finish"], "error");
}

TEST_F(RequestLogLines, AreThereForAClientThatLeft) {
  server_->executor.pause();
  {
    http::TestClient client(server_->port());
    client.request("POST", "/v1/completions", completion_of(kMarker, {{"n", 2}}).dump(),
                   "Authorization: Bearer k2\r\n");
    while (server_->engine.in_flight() < 2) std::this_thread::yield();
  }
  while (server_->server->open_request_count() > 0) std::this_thread::yield();
  server_->executor.resume();
  while (server_->engine.in_flight() > 0) std::this_thread::yield();
  const std::vector<Json> requests = lines();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_FALSE(requests[0].contains("status"));
  EXPECT_EQ(requests[0]["finish"], "cancelled");
}

}  // namespace
}  // namespace pacer::api

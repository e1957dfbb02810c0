// Runs every tests/transcript/*.http against a real server: what a client sends, and what it must
// get back. For behaviour that a user can describe; what needs timing or threads is in
// server_test.cpp.
//
// A file is a list of exchanges on one server:
//   # a comment
//   ### server max_queue=0 fail_at=2       (optional, first: TestServerOptions by name, fail_at,
//                                           prints_all and raises, which are chat templates)
//   ### request
//   POST /v1/completions HTTP/1.1          (Host and Content-Length are added; {{hex:ff}} is a raw
//   byte)
//
//   {"prompt": "x"}
//   ### response
//   HTTP/1.1 200
//   Content-Type: application/json         (these headers must be there; others may)
//
//   {"id": "cmpl-{{any}}", ...}            (JSON is compared as values, members complete; anything
//                                           else as text. {{any}} stands for any text, "{{any}}"
//                                           alone for any value)
// In a text/event-stream each `data:` line is compared so, in order and complete; comments are not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/test_server.h"

namespace pacer::api {
namespace {

// Prints everything that a template can see.
constexpr const char* kPrintAllTemplate =
    "{% for m in messages %}{{ m }}{% endfor %}|{{ tools | tojson }}|{{ documents | tojson }}|"
    "{{ extra }}";

// Refuses every user, and cannot do with others.
constexpr const char* kRaisingTemplate =
    "{% set m = messages[0] %}{% if m.role != 'user' %}{{ m.nothing.at_all }}{% endif %}"
    "{{ raise_exception('Roles must alternate, not ' + m.role + '/\"' + m.content + '\"!') }}";

constexpr std::string_view kAny = "{{any}}";

struct Exchange {
  std::string request;
  std::string response;
};
struct Transcript {
  std::map<std::string, int> server;
  std::vector<Exchange> exchanges;
};

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n\r");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

Transcript read_transcript(const std::filesystem::path& path) {
  Transcript transcript;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("### server")) {
      std::istringstream settings(line.substr(10));
      for (std::string setting; settings >> setting;) {
        const size_t equals = setting.find('=');
        transcript.server[setting.substr(0, equals)] = std::stoi(setting.substr(equals + 1));
      }
    } else if (line == "### request") {
      section = &transcript.exchanges.emplace_back().request;
    } else if (line == "### response") {
      section = &transcript.exchanges.back().response;
    } else if (section != nullptr && !line.starts_with("# ")) {
      *section += line + "\n";
    }
  }
  return transcript;
}

// Plain text with {{any}} holes. Each hole takes as little as it can, so the last piece must end
// it.
bool text_matches(std::string_view expected, std::string_view actual) {
  size_t hole = expected.find(kAny);
  if (hole == std::string_view::npos) return expected == actual;
  if (!actual.starts_with(expected.substr(0, hole))) return false;
  actual.remove_prefix(hole);
  expected.remove_prefix(hole + kAny.size());
  while ((hole = expected.find(kAny)) != std::string_view::npos) {
    const size_t at = actual.find(expected.substr(0, hole));
    if (at == std::string_view::npos) return false;
    actual.remove_prefix(at + hole);
    expected.remove_prefix(hole + kAny.size());
  }
  return actual.ends_with(expected);
}

bool json_matches(const Json& expected, const Json& actual) {
  if (expected.is_string()) {
    const auto& text = expected.get_ref<const std::string&>();
    if (text == kAny) return true;
    return actual.is_string() && text_matches(text, actual.get_ref<const std::string&>());
  }
  if (expected.is_number()) return actual.is_number() && expected == actual;
  if (expected.type() != actual.type() || expected.size() != actual.size()) return false;
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      if (!actual.contains(key) || !json_matches(value, actual[key])) return false;
    }
    return true;
  }
  if (expected.is_array()) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!json_matches(expected[i], actual[i])) return false;
    }
    return true;
  }
  return expected == actual;
}

bool body_matches(const std::string& expected, const std::string& actual) {
  const Json expected_json = Json::parse(expected, nullptr, false);
  const Json actual_json = Json::parse(actual, nullptr, false);
  if (expected_json.is_structured()) return json_matches(expected_json, actual_json);
  return text_matches(expected, trimmed(actual));
}

void expect_stream(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> wanted = sse_data(expected + "\n");
  const std::vector<std::string> got = sse_data(actual);
  for (size_t i = 0; i < std::max(wanted.size(), got.size()); ++i) {
    const std::string want = i < wanted.size() ? wanted[i] : "(nothing)";
    const std::string have = i < got.size() ? got[i] : "(nothing)";
    EXPECT_TRUE(body_matches(want, have))
        << "event " << i << "\nexpected " << want << "\nactual   " << have;
  }
}

std::string with_raw_bytes(std::string text) {
  size_t at;
  while ((at = text.find("{{hex:")) != std::string::npos) {
    const auto byte = static_cast<char>(std::stoi(text.substr(at + 6, 2), nullptr, 16));
    text.replace(at, std::string("{{hex:ff}}").size(), 1, byte);
  }
  return text;
}

// The request as bytes: CRLF, Host, Content-Length.
std::string request_bytes(const std::string& text) {
  const size_t blank = text.find("\n\n");
  const std::string head = blank == std::string::npos ? trimmed(text) : text.substr(0, blank);
  const std::string body =
      blank == std::string::npos ? "" : with_raw_bytes(trimmed(text.substr(blank + 2)));
  std::string out;
  std::istringstream lines(head);
  for (std::string line; std::getline(lines, line);) out += line + "\r\n";
  out += "Host: test\r\n";
  if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + body;
}

void expect_response(const std::string& expected, const http::TestResponse& actual) {
  const size_t blank = expected.find("\n\n");
  std::istringstream head(expected.substr(0, blank));
  std::string line;
  std::getline(head, line);
  EXPECT_EQ(line, "HTTP/1.1 " + std::to_string(actual.status)) << actual.body;
  while (std::getline(head, line) && !line.empty()) {
    const size_t colon = line.find(": ");
    EXPECT_TRUE(text_matches(line.substr(colon + 2), actual.header(line.substr(0, colon))))
        << "expected " << line << "\nactual '" << actual.header(line.substr(0, colon)) << "'";
  }
  EXPECT_TRUE(actual.complete) << "the response was cut";
  if (blank == std::string::npos) return;  // only the head was asked for
  const std::string body = trimmed(expected.substr(blank + 2));
  if (actual.header("Content-Type").starts_with("text/event-stream")) {
    expect_stream(body, actual.body);
  } else {
    EXPECT_TRUE(body_matches(body, actual.body))
        << "expected " << body << "\nactual   " << actual.body;
  }
}

TestServerOptions options_of(const std::map<std::string, int>& settings) {
  TestServerOptions options;
  for (const auto& [name, value] : settings) {
    const auto number = static_cast<uint32_t>(value);
    if (name == "running_max") {
      options.running_max = number;
    } else if (name == "max_queue") {
      options.max_queue = number;
    } else if (name == "max_model_len") {
      options.max_model_len = number;
    } else if (name == "blocks") {
      options.blocks = number;
    } else if (name == "adds_bos") {
      options.adds_bos = value != 0;
    } else if (name == "prints_all") {
      if (value != 0) options.chat_template = kPrintAllTemplate;
    } else if (name == "raises") {
      if (value != 0) options.chat_template = kRaisingTemplate;
    } else {
      EXPECT_EQ(name, "fail_at") << "unknown setting";
    }
  }
  return options;
}

std::filesystem::path transcript_folder() {
  return std::filesystem::path(PACER_SOURCE_DIR) / "tests/transcript";
}

std::vector<std::string> transcript_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(transcript_folder())) {
    if (entry.path().extension() == ".http") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class TranscriptFile : public testing::TestWithParam<std::string> {};

TEST_P(TranscriptFile, IsWhatTheServerSays) {
  const Transcript transcript = read_transcript(transcript_folder() / (GetParam() + ".http"));
  ASSERT_FALSE(transcript.exchanges.empty());
  TestServer server(options_of(transcript.server));
  if (const auto found = transcript.server.find("fail_at"); found != transcript.server.end()) {
    server.executor.fail_at(static_cast<uint32_t>(found->second));
  }
  for (const Exchange& exchange : transcript.exchanges) {
    SCOPED_TRACE(exchange.request.substr(0, 400));
    http::TestClient client(server.port());
    ASSERT_TRUE(client.send(request_bytes(exchange.request)));
    const bool head = exchange.request.starts_with("HEAD ");
    expect_response(exchange.response, client.response(head));
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

INSTANTIATE_TEST_SUITE_P(All, TranscriptFile, testing::ValuesIn(transcript_names()),
                         [](const auto& file) { return file.param; });

TEST(Transcript, MatchingTellsRightFromWrong) {
  EXPECT_TRUE(json_matches(Json::parse(R"({"a":"x{{any}}z","b":"{{any}}"})"),
                           Json::parse(R"({"a":"xyz","b":[1]})")));
  EXPECT_FALSE(json_matches(Json::parse(R"({"a":1})"), Json::parse(R"({"a":1,"b":2})")));
  EXPECT_FALSE(json_matches(Json::parse(R"({"a":1,"b":2})"), Json::parse(R"({"a":1})")));
  EXPECT_FALSE(json_matches(Json::parse(R"({"a":null})"), Json::parse(R"({"a":0})")));
  EXPECT_FALSE(text_matches("cmpl-{{any}}", "chatcmpl-1"));
  EXPECT_FALSE(text_matches("a{{any}}b{{any}}c", "axbx"));
}

}  // namespace
}  // namespace pacer::api

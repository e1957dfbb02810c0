#include "api/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "api/test_server.h"

namespace pacer::api {
namespace {

struct Read {
  Json chat;
  std::optional<Error> error;
};

Read read(std::string_view body, const char* source = "{{ messages }}{{ tools }}{{ documents }}",
          std::optional<std::string_view> tool_use = std::nullopt) {
  const auto tokenizer = text::test_tokenizer();
  const auto chat_template = text::ChatTemplate::compile(source, *tokenizer, tool_use);
  EXPECT_TRUE(chat_template.ok());
  const Json object = Json::parse(body);
  Fields fields(object);
  FieldWarnings warnings;
  Read out{.chat = read_chat(fields, **chat_template, warnings), .error = {}};
  if (!fields.ok()) out.error = fields.error();
  return out;
}

// Prints every string that a request can bring to a template, keys included.
constexpr const char* kPrintAll =
    "{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.name }}{{ m.tool_call_id }}"
    "{{ m.reasoning_content }}{{ m.tool_calls }}{{ m.tool_calls | tojson if m.tool_calls }}"
    "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}"
    "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}"
    "{% for k, v in c.function.arguments.items() %}{{ k }}{{ v }}{% endfor %}{% endif %}"
    "{% endfor %}{% endfor %}{{ tools }}{{ tools | tojson }}"
    "{% for t in tools %}{{ t.function.description }}{% for k in t.function.parameters %}{{ k }}"
    "{% endfor %}{% endfor %}{{ documents }}{{ documents | tojson(indent=1) }}"
    "{% for d in documents %}{% for k, v in d.items() %}{{ k ~ v }}{% endfor %}{% endfor %}"
    "{{ kwarg }}{{ kwarg_list | join }}";

TEST(Messages, NoStringOfARequestBecomesAControlToken) {
  TestServer server({.max_model_len = 1u << 16, .blocks = 1u << 12, .chat_template = kPrintAll});
  const std::string t = "<|im_end|>";
  const Json body = {
      {"messages",
       {{{"role", "user"}, {"content", "a" + t}, {"name", t}},
        {{"role", "assistant"},
         {"content",
          {{{"type", "text"}, {"text", "<|im_"}}, {{"type", "text"}, {"text", "end|>"}}}},
         {"reasoning_content", t},
         {"tool_calls",
          {{{"id", t},
            {"function", {{"name", t}, {"arguments", R"({"<|im_end|>": "<|im_end|>"})"}}}},
           {{"id", "<|im_"}, {"function", {{"name", "end|>"}, {"arguments", "no JSON" + t}}}}}}},
        {{"role", "tool"}, {"tool_call_id", t}, {"content", t}}}},
      {"tools",
       {{{"type", "function"},
         {"function", {{"name", t}, {"description", t}, {"parameters", {{t, {{"enum", {t}}}}}}}}}}},
      {"documents", {{{t, t}, {"title", "<|im_start|>"}}}},
      {"chat_template_kwargs", {{"kwarg", t}, {"kwarg_list", {"<|im", "_end|>"}}}},
      {"return_token_strs", true}};
  const http::TestResponse response = server.post("/tokenize", body);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = Json::parse(response.body);
  std::string said;
  for (const Json& id : answer["tokens"]) {
    ASSERT_LT(id, text::kTestImStart) << "after: " << said;
    said += static_cast<char>(id.get<int>());
  }
  // And yet all of it is there: the whole ones, and those in two halves that were put together.
  size_t count = 0;
  for (size_t at = 0; (at = said.find(t, at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 39u) << said;
}

TEST(Messages, ToolsAndDocumentsAreBoundedInNumber) {
  const auto body = [](const char* name, const char* element, size_t count) {
    std::string list;
    for (size_t i = 0; i < count; ++i) list.append(i > 0 ? "," : "").append(element);
    return std::string(R"({"messages":[{"role":"user","content":"x"}],")") + name + "\":[" + list +
           "]}";
  };
  const char* tool = R"({"function":{"name":"f"}})";
  EXPECT_FALSE(read(body("tools", tool, kToolsMax)).error);
  EXPECT_EQ(read(body("tools", tool, kToolsMax + 1)).error->message,
            "'tools' has 1025 entries, but at most 1024 are allowed");
  EXPECT_FALSE(read(body("documents", "{}", kDocumentsMax)).error);
  EXPECT_EQ(read(body("documents", "{}", kDocumentsMax + 1)).error->param, "documents");
}

TEST(Messages, WhatTheTemplateNeverNamesIsRefused) {
  const auto refused = [](const char* fields, const char* source,
                          std::optional<std::string_view> tool_use = std::nullopt) {
    const Read got =
        read(std::string(R"({"messages":[{"role":"user","content":"x"}],)") + fields + "}", source,
             tool_use);
    if (!got.error) return std::string();
    EXPECT_EQ(got.error->code, Code::kUnsupported) << got.error->message;
    return got.error->param;
  };
  const char* tools = R"("tools":[{"function":{"name":"f"}}])";
  const char* documents = R"("documents":[{}])";
  const char* both = R"("tools":[{"function":{"name":"f"}}],"documents":[{}])";
  EXPECT_EQ(refused(tools, "{{ messages }}"), "tools");
  EXPECT_EQ(refused(documents, "{{ messages }}{{ tools }}"), "documents");
  EXPECT_EQ(refused(both, "{{ tools }}"), "documents");
  EXPECT_EQ(refused(both, "{{ tools }}{{ documents }}"), "");
  EXPECT_EQ(refused(R"("tools":[],"documents":null)", "{{ messages }}"), "");
  // A chat with tools goes through another template.
  EXPECT_EQ(refused(tools, "{{ messages }}", "{{ tools }}"), "");
  EXPECT_EQ(refused(both, "{{ documents }}", "{{ tools }}"), "documents");
  EXPECT_EQ(refused(documents, "{{ documents }}", "{{ tools }}"), "");
}

TEST(Messages, WhatOtherFieldsDecideIsNotForTheTemplatesSettings) {
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
    const Read got = read(std::string(R"({"messages":[{"role":"user","content":"x"}],)") +
                          R"("chat_template_kwargs":{")" + name + "\":null}}");
    ASSERT_TRUE(got.error) << name;
    EXPECT_EQ(got.error->param, std::string("chat_template_kwargs.") + name);
  }
}

TEST(Messages, ArgumentsNestedTooDeeplyStayText) {
  const std::string deep = "{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}";
  const std::string fits = "{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}";
  const auto arguments = [](const std::string& text) {
    const Json call = {{"function", {{"name", "f"}, {"arguments", text}}}};
    const Json body = {{"messages", {{{"role", "assistant"}, {"tool_calls", {call}}}}}};
    return read(body.dump()).chat["messages"][0]["tool_calls"][0]["function"]["arguments"];
  };
  EXPECT_TRUE(arguments(fits).is_object());
  EXPECT_EQ(arguments(deep), deep);
}

TEST(Messages, OfSeveralNamesForReasoningTheUsualOneWins) {
  const Read got = read(R"({"messages":[{"role":"assistant","thinking":"t","reasoning":"r",
                            "reasoning_content":"c","content":""}]})");
  ASSERT_FALSE(got.error);
  EXPECT_EQ(got.chat["messages"][0]["reasoning_content"], "c");
  EXPECT_EQ(read(R"({"messages":[{"role":"user","content":"x","thinking":5}]})").error->param,
            "messages[0].thinking");
}

}  // namespace
}  // namespace pacer::api

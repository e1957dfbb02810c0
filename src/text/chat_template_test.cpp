#include "text/chat_template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gguf/test_gguf.h"
#include "text/test_tokenizer.h"

namespace pacer::text {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

class ChatTemplateTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChatTemplate> compile(const std::string& source) {
    auto compiled = ChatTemplate::compile(source, *tokenizer_);
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    return compiled.ok() ? *std::move(compiled) : nullptr;
  }
  std::string render(const std::string& source, const std::string& context) {
    const auto chat = compile(source)->render(context);
    EXPECT_TRUE(chat.ok()) << (chat.ok() ? "" : chat.error().message);
    return chat.ok() ? chat->text : "";
  }
  Error failure(const std::string& source, const std::string& context) {
    const auto chat = compile(source)->render(context);
    EXPECT_FALSE(chat.ok()) << source;
    return chat.ok() ? Error{} : chat.error();
  }

  std::unique_ptr<Tokenizer> tokenizer_ = test_tokenizer();
};

TEST_F(ChatTemplateTest, RendersAsHuggingFaceDoes) {
  // Each line: what transformers' apply_chat_template makes of the same.
  EXPECT_EQ(render("{% if true %}\n  a\n  {% endif %}\nb\n", "{}"), "  a\nb");
  EXPECT_EQ(render("{{ x | tojson }}", R"({"x": {"b": [1, 2.0, "<é>"], "a": null}})"),
            R"({"b": [1, 2.0, "<é>"], "a": null})");
  EXPECT_EQ(render("{{ x | tojson(indent=2) }}", R"({"x": {"b": [1]}})"),
            "{\n  \"b\": [\n    1\n  ]\n}");
  EXPECT_EQ(
      render("{{ m.content.strip().split('|')[-1] | upper }}", R"({"m":{"content":" a|b "}})"),
      "B");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for i in range(9) %}{% if i == 4 %}{% break %}"
                   "{% endif %}{% if i is odd %}{% continue %}{% endif %}{% set ns.n = ns.n + i %}"
                   "{% endfor %}{{ ns.n }}",
                   "{}"),
            "2");
  EXPECT_EQ(render("[{{ missing }}]{{ none }}{{ true }}{{ [1, 'a'] }}", "{}"),
            "[]NoneTrue[1, 'a']");
  EXPECT_EQ(render("{% if tools is none %}-{% endif %}{{ eos_token }}{{ bos_token }}", "{}"),
            "-<|im_end|>");
  EXPECT_EQ(
      render("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", R"({"d":{"z":1,"a":2}})"),
      "z1a2");
}

TEST_F(ChatTemplateTest, TheDateIsThatOfTheCaller) {
  const auto chat = compile("{{ strftime_now('%d %b %Y') }}")
                        ->render("{}", std::chrono::system_clock::from_time_t(1'721'995'200));
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, "26 Jul 2024");
}

TEST_F(ChatTemplateTest, ItsOwnRefusalComesThroughVerbatim) {
  const Error error = failure("{{ raise_exception('Roles must alternate {user}/\"x\"!') }}", "{}");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "Roles must alternate {user}/\"x\"!");
}

TEST_F(ChatTemplateTest, BrokenTemplatesAreRefusedWithTheLine) {
  const auto broken = ChatTemplate::compile("a\n{% if %}", *tokenizer_);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Code::kBadFile);
  EXPECT_THAT(broken.error().message, HasSubstr("chat template:2"));
}

TEST_F(ChatTemplateTest, AContextThatDoesNotFitIsTheCallersError) {
  EXPECT_EQ(failure("{{ m.a.b }}", "{}").code, Code::kInvalidArgument);
  for (const char* context : {"", "null", "[]", "{", "{\"a\":\"\xFF\"}", "{\"a\":\"\\ud800\"}"}) {
    EXPECT_EQ(failure("x", context).code, Code::kInvalidArgument) << context;
  }
}

TEST_F(ChatTemplateTest, WorkAndOutputAreBounded) {
  const std::string forever =
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(failure(forever, "{}").code, Code::kTooLarge);
  EXPECT_THAT(failure(forever, "{}").message, HasSubstr("limit of 2000000 steps"));
  EXPECT_EQ(render("{{ 'x' * 8388608 }}", "{}").size(), 8u << 20);
  const Error large = failure("{{ 'x' * 8388608 }}y", "{}");
  EXPECT_EQ(large.code, Code::kTooLarge);
  EXPECT_THAT(large.message, HasSubstr("8388608 bytes"));
}

// A crash would end the test program; whether the template is refused or works does not matter.
TEST_F(ChatTemplateTest, DepthIsNoWayToCrash) {
  const auto repeat = [](const std::string& unit) {
    std::string out;
    while (out.size() < 60'000) out += unit;
    return out;
  };
  std::vector<std::string> sources = {"{{ " + repeat("not ") + "1 }}",
                                      "{{ " + repeat("-") + "1 }}",
                                      "{{ 1" + repeat("+1") + " }}",
                                      "{{ a" + repeat(".b") + " }}",
                                      "{{ a" + repeat("|e") + " }}",
                                      "{{ " + repeat("(") + "1 }}",
                                      "{{ " + repeat("[") + " }}",
                                      repeat("{% if a %}"),
                                      "{{ 1" + repeat(" if 1 else 1") + " }}",
                                      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"};
  // As deep as the limit on work allows: the first ends there, the others print or compare just
  // before.
  for (const char* step : {"[ns.x]", "{'k': ns.x}", "namespace(y=ns.x)", "ns.x|map('upper')"}) {
    for (const auto& [rounds, end] : {std::pair{99, ""},
                                      {14, "{{ ns.x }}"},
                                      {14, "{{ ns.x == [ns.x] }}"},
                                      {14, "{{ ns.x|tojson }}"}}) {
      sources.push_back(fmt::format(
          "{{% set ns = namespace(x='') %}}{{% for i in range({}) %}}{{% for j in range(10000) %}}"
          "{{% set ns.x = {} %}}{{% endfor %}}{{% endfor %}}{}",
          rounds, step, end));
    }
  }
  for (const std::string& source : sources) {
    const auto compiled = ChatTemplate::compile(source, *tokenizer_);
    if (compiled) (void)(*compiled)->render("{}").ok();
  }
}

TEST_F(ChatTemplateTest, ControlTokensInMessagesArePlainText) {
  const auto chat_template =
      compile("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
  const auto chat = chat_template->render(R"({"messages":[{"content":"a<|im_end|>"}]})");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->guard, "\uFDD0");
  EXPECT_EQ(chat->plain_text(), "<|im_start|>a<|im_end|><|im_end|>");
  Ids expected = {kTestImStart, 'a'};
  for (const char c : std::string("<|im_end|>")) expected.push_back(static_cast<uint8_t>(c));
  expected.push_back(kTestImEnd);
  EXPECT_EQ(encode_chat(*tokenizer_, *chat), expected);
}

TEST_F(ChatTemplateTest, WithoutControlTokensNoGuardIsNeeded) {
  const auto chat = compile("{{ messages[0] }}<|im_end|>")->render(R"({"messages":["a < b"]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->guard, "");
  EXPECT_EQ(chat->plain_text(), chat->text);
}

TEST_F(ChatTemplateTest, NoPartOfARequestCanForgeAToken) {
  const auto chat_template = compile(
      "{% for m in messages %}{{ m.role }}{% for p in m.content %}{{ p.text | trim }}{% endfor %}"
      "{% endfor %}{% for t in tools %}{{ t }}{{ t | tojson }}{% for k in t %}{{ k }}{% endfor %}"
      "{% endfor %}{{ documents }}{{ extra }}");
  const auto chat = chat_template->render(R"({
    "messages": [{"role": "x<|im_end|>", "content": [{"text": "<|im_"}, {"text": "end|>"},
                 {"text": " <|im "}, {"text": "<"}, {"text": "\n|im_end|>"}]}],
    "tools": [{"<|im_end|>": "<|im_start|>"}], "documents": ["<|im_end|>"],
    "extra": "<|im_end|>"})");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  const Ids ids = encode_chat(*tokenizer_, *chat);
  EXPECT_TRUE(std::none_of(ids.begin(), ids.end(), [&](TokenId id) {
    return tokenizer_->is_special(id);
  })) << chat->text;
  EXPECT_EQ(tokenizer_->decode(ids, false), chat->plain_text());
  EXPECT_EQ(chat->plain_text(),
            "x<|im_end|><|im_end|><|im<|im_end|>{'<|im_end|>': '<|im_start|>'}"
            "{\"<|im_end|>\": \"<|im_start|>\"}<|im_end|>['<|im_end|>']<|im_end|>");
}

TEST_F(ChatTemplateTest, WhenAllGuardsAreTakenTheRequestIsRefused) {
  std::string all;
  for (char last = '\x90'; last != '\xB0'; ++last) all += std::string("\xEF\xB7") + last;
  const auto chat_template = compile("{{ x }}");
  EXPECT_TRUE(chat_template->render("{\"x\":\"" + all + "\"}").ok());
  EXPECT_EQ(failure("{{ x }}", "{\"x\":\"" + all + "<|im_end|>\"}").code, Code::kInvalidArgument);
}

TEST_F(ChatTemplateTest, ThereIsExactlyOneBosWhereTheModelWantsOne) {
  Vocabulary vocabulary = test_vocabulary();
  vocabulary.bos = kTestImStart;
  vocabulary.add_bos = true;
  vocabulary.add_eos = true;  // never after a prompt that wants an answer
  auto with_bos = *Tokenizer::from_vocabulary(vocabulary);
  const Ids once = {kTestImStart, 'a'};
  EXPECT_EQ(encode_chat(*with_bos, {"a", ""}), once);
  EXPECT_EQ(encode_chat(*with_bos, {"<|im_start|>a", ""}), once);
  EXPECT_EQ(encode_chat(*with_bos, {"<|im_start|><|im_start|>a", ""}), once);
  EXPECT_EQ(encode_chat(*tokenizer_, {"a", ""}), (Ids{'a'}));
}

TEST_F(ChatTemplateTest, AFileWithoutATemplateGetsChatMl) {
  gguf::GgufWriter none;
  const gguf::TempFile none_file(none.add_u32("x", 1).bytes());
  const auto chat_ml = ChatTemplate::from_gguf(*gguf::File::open(none_file.path()), *tokenizer_);
  ASSERT_TRUE(chat_ml.ok()) << chat_ml.error().message;
  const auto chat = (*chat_ml)->render(
      R"({"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":true})");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");

  gguf::GgufWriter own;
  const gguf::TempFile own_file(own.add_string("tokenizer.chat_template", "own").bytes());
  const auto from_file = ChatTemplate::from_gguf(*gguf::File::open(own_file.path()), *tokenizer_);
  ASSERT_TRUE(from_file.ok());
  EXPECT_EQ((*from_file)->source(), "own");

  gguf::GgufWriter broken;
  const gguf::TempFile broken_file(broken.add_string("tokenizer.chat_template", "{{").bytes());
  const auto refused = ChatTemplate::from_gguf(*gguf::File::open(broken_file.path()), *tokenizer_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              HasSubstr(broken_file.path() + ": tokenizer.chat_template: "));
}

TEST_F(ChatTemplateTest, ChatsWithToolsGoThroughTheTemplateForTools) {
  gguf::GgufWriter writer;
  writer.add_string("tokenizer.chat_template", "plain");
  writer.add_string("tokenizer.chat_template.tool_use", "tools: {{ tools | length }}");
  const gguf::TempFile file(writer.bytes());
  const auto chat_template = ChatTemplate::from_gguf(*gguf::File::open(file.path()), *tokenizer_);
  ASSERT_TRUE(chat_template.ok()) << chat_template.error().message;
  EXPECT_EQ((*chat_template)->render("{}")->text, "plain");
  EXPECT_EQ((*chat_template)->render(R"({"tools": []})")->text, "plain");
  EXPECT_EQ((*chat_template)->render(R"({"tools": [{}, {}]})")->text, "tools: 2");

  gguf::GgufWriter broken;
  broken.add_string("tokenizer.chat_template.tool_use", "{{");
  const gguf::TempFile broken_file(broken.bytes());
  EXPECT_FALSE(ChatTemplate::from_gguf(*gguf::File::open(broken_file.path()), *tokenizer_).ok());
}

TEST_F(ChatTemplateTest, NamesAreWholeWordsOfTheTemplateThatTheChatGoesThrough) {
  for (const char* source :
       {"{{ tools }}", "tools", "{% if not tools%}{% endif %}", "{{my_tools or tools}}"}) {
    EXPECT_TRUE(compile(source)->names("tools", true)) << source;
    EXPECT_TRUE(compile(source)->names("tools", false)) << source;
  }
  for (const char* source : {"", "{{ tool }}", "{{ my_tools }}{{ tools2 }}{{ toolsX }}"}) {
    EXPECT_FALSE(compile(source)->names("tools", true)) << source;
  }
  const auto both = ChatTemplate::compile("{{ documents }}", *tokenizer_, "{{ tools }}");
  ASSERT_TRUE(both.ok());
  EXPECT_TRUE((*both)->names("tools", true));
  EXPECT_FALSE((*both)->names("tools", false));
  EXPECT_TRUE((*both)->names("documents", false));
  EXPECT_FALSE((*both)->names("documents", true));
}

TEST_F(ChatTemplateTest, AFileOfTheUsersIsReadWholeOrRefusedByName) {
  const auto write = [](const std::string& text) {
    return gguf::TempFile(std::as_bytes(std::span(text)));
  };
  const auto good = write("{{ 1 + 1 }}\n\n");
  const auto chat_template = ChatTemplate::from_file(good.path(), *tokenizer_);
  ASSERT_TRUE(chat_template.ok()) << chat_template.error().message;
  EXPECT_EQ((*chat_template)->render("{}")->text, "2\n");

  const auto longest = write(std::string(128 << 10, 'x'));
  EXPECT_TRUE(ChatTemplate::from_file(longest.path(), *tokenizer_).ok());
  for (const auto& [source, reason] :
       {std::pair{std::string((128 << 10) + 1, 'x'), "more bytes than the limit of 131072"},
        std::pair{std::string(400'000, 'x'), "more bytes than the limit of 131072"},
        std::pair{std::string("{{ a"), "chat template:1"},
        std::pair{std::string("\xff"), "not UTF-8"}}) {
    const auto file = write(source);
    const auto refused = ChatTemplate::from_file(file.path(), *tokenizer_);
    ASSERT_FALSE(refused.ok()) << reason;
    EXPECT_THAT(refused.error().message, HasSubstr(file.path() + ": "));
    EXPECT_THAT(refused.error().message, HasSubstr(reason));
  }
  for (const auto& [path, reason] :
       {std::pair{"/nowhere/template.jinja", ENOENT}, std::pair{"/", EISDIR}}) {
    const auto absent = ChatTemplate::from_file(path, *tokenizer_);
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.error().code, Code::kIo);
    EXPECT_THAT(absent.error().message,
                HasSubstr(fmt::format("'{}': {}", path, std::strerror(reason))));
  }
}

TEST_F(ChatTemplateTest, ThreadsMayRenderAtOnce) {
  const auto chat_template = compile("{{ x }}<|im_end|>");
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto chat = chat_template->render("{\"x\":" + std::to_string(t) + "}");
        right[t] += chat.ok() && chat->text == std::to_string(t) + "<|im_end|>";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 50));
}

}  // namespace
}  // namespace pacer::text

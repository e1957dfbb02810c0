// Templates that print the final message in their own way, and what is left of it.
#include "api/open_chat.h"

#include <gtest/gtest.h>

#include "text/test_tokenizer.h"

namespace pacer::api {
namespace {

Result<text::RenderedChat> render(const char* source, const std::string& content,
                                  const std::string& before = "") {
  const auto tokenizer = text::test_tokenizer();
  const auto chat_template = *text::ChatTemplate::compile(source, *tokenizer);
  Json chat = {{"messages", Json::array()}, {"add_generation_prompt", false}};
  chat["messages"].push_back({{"role", "user"}, {"content", before}});
  chat["messages"].push_back({{"role", "assistant"}, {"content", content}});
  return render_open_chat(chat, *chat_template);
}

constexpr const char* kPlain = "{% for m in messages %}[{{ m.content }}]\n{% endfor %}END";
constexpr const char* kTrims = "{% for m in messages %}[{{ m.content | trim }}]\n{% endfor %}END";

TEST(OpenChat, IsCutBehindTheContentOfTheFinalMessage) {
  EXPECT_EQ(render(kPlain, "Hello wor")->text, "[]\n[Hello wor");
  EXPECT_EQ(render(kPlain, "a \n")->text, "[]\n[a \n") << "white space is kept where it is printed";
  EXPECT_EQ(render(kPlain, "")->text, "[]\n[");
}

TEST(OpenChat, MayContainWhatMarksItsEnd) {
  const std::string marks = "END-OF-OPEN-MESSAGE- END-OF-OPEN-MESSAGE-1 END-OF-OPEN-MESSAGE-11";
  EXPECT_EQ(render(kPlain, marks + "1", marks)->text, "[" + marks + "]\n[" + marks + "1");
}

TEST(OpenChat, WhiteSpaceThatTheTemplateTrimsIsGone) {
  EXPECT_EQ(render(kTrims, "Hello \n ")->text, "[]\n[Hello");
  EXPECT_EQ(render(kTrims, "  Hello")->text, "[]\n[Hello");
}

TEST(OpenChat, OfAMessageThatIsPrintedTwiceTheLastOneCounts) {
  const char* twice =
      "{{ messages[1].content }}|{% for m in messages %}{{ m.content }};{% endfor %}";
  EXPECT_EQ(render(twice, "b", "a")->plain_text().substr(0, 1), "b");
  EXPECT_TRUE(render(twice, "b", "a")->plain_text().ends_with("a;b"));
}

TEST(OpenChat, NothingThatAClientWritesIsTakenForTheMark) {
  const std::string mark = "END-OF-OPEN-MESSAGE-0 ";
  EXPECT_EQ(render(kPlain, "x" + mark + "y", mark)->text, "[" + mark + "]\n[x" + mark + "y");
}

TEST(OpenChat, AControlTokenInTheMessageStaysText) {
  const auto chat = render(kPlain, "<|im_end|>");
  EXPECT_FALSE(chat->guard.empty());
  EXPECT_EQ(chat->plain_text(), "[]\n[<|im_end|>");
}

TEST(OpenChat, AMessageThatTheTemplateDoesNotPrintAsItIsCannotGoOn) {
  for (const char* source : {"{{ messages[0].content }}", "{{ messages[1].content | upper }}",
                             "{{ messages[1].content[:3] }}"}) {
    const auto chat = render(source, "Hello");
    ASSERT_FALSE(chat.ok()) << source;
    EXPECT_EQ(chat.error().param, "continue_final_message");
    EXPECT_EQ(chat.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace pacer::api

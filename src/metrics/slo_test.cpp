#include "metrics/slo.h"

#include <gtest/gtest.h>

namespace pacer::metrics {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// 100 ms to the first token, then ten more in 200 ms, the longest gap 30 ms.
RequestTimes typical() {
  return {.ttft = milliseconds(100),
          .e2e = milliseconds(300),
          .itl_max = milliseconds(30),
          .output_tokens = 11};
}

TEST(Slo, ParsesEachKeyAndUnit) {
  const auto slo = parse_slo("ttft=500ms,tpot=50ms,e2e=2s,itl=250us,p=99.5");
  ASSERT_TRUE(slo) << slo.error().message;
  EXPECT_EQ(slo->ttft, Duration(milliseconds(500)));
  EXPECT_EQ(slo->tpot, Duration(milliseconds(50)));
  EXPECT_EQ(slo->e2e, Duration(seconds(2)));
  EXPECT_EQ(slo->itl_max, Duration(microseconds(250)));
  EXPECT_DOUBLE_EQ(slo->percentile, 99.5);
}

TEST(Slo, WhatIsNotGivenIsNotBoundAndThePercentileIs95) {
  const auto slo = parse_slo(" tpot = 0.5s ");
  ASSERT_TRUE(slo) << slo.error().message;
  EXPECT_EQ(slo->tpot, Duration(milliseconds(500)));
  EXPECT_FALSE(slo->ttft || slo->e2e || slo->itl_max);
  EXPECT_DOUBLE_EQ(slo->percentile, 95.0);
}

TEST(Slo, ABadOneIsRefusedWithWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "key=value"},
      {"ttft", "'ttft' is not key=value"},
      {"ttft=1s,", "'' is not key=value"},
      {",ttft=1s", "'' is not key=value"},
      {"speed=1s", "no key 'speed'"},
      {"TTFT=1s", "no key 'TTFT'"},
      {"ttft=", "ttft= is not a duration"},
      {"ttft=fast", "ttft=fast is not a duration"},
      {"ttft=-1s", "ttft=-1s is not a duration"},
      {"ttft=nan", "not a duration"},
      {"ttft=inf", "not a duration"},
      {"ttft=5", "has nothing where us, ms or s belongs"},
      {"ttft=5m", "has 'm' where"},
      {"ttft=5 ms", "has ' ms' where"},
      {"ttft=5ms5", "has 'ms5' where"},
      {"ttft=0ms", "outside"},
      {"ttft=86401s", "outside"},
      {"ttft=1e9s", "has 'e9s' where"},
      {"ttft=1s,ttft=2s", "'ttft' is given twice"},
      {"ttft=1s,p=9,p=9", "'p' is given twice"},
      {"ttft=1s,p=0", "p=0 is not a percentile"},
      {"ttft=1s,p=100.1", "p=100.1 is not a percentile"},
      {"ttft=1s,p=95%", "p=95% is not a percentile"},
      {"p=95", "bounds nothing"},
  };
  for (const auto& [text, why] : cases) {
    const auto slo = parse_slo(text);
    ASSERT_FALSE(slo) << text;
    EXPECT_EQ(slo.error().code, Code::kInvalidArgument);
    EXPECT_NE(slo.error().message.find(why), std::string::npos)
        << text << ": " << slo.error().message;
  }
}

TEST(Slo, WrittenOutItParsesToItself) {
  for (const char* text : {"ttft=500ms,p=95", "ttft=2s,tpot=1.5us,e2e=90s,itl=33us,p=99.9"}) {
    EXPECT_EQ(to_string(*parse_slo(text)), text);
  }
  EXPECT_EQ(to_string(*parse_slo("p=50,e2e=60000ms,ttft=0.25s")), "ttft=250ms,e2e=60s,p=50");
}

TEST(Slo, TpotIsTheMeanGapAfterTheFirstToken) {
  EXPECT_EQ(tpot(typical()), Duration(milliseconds(20)));
  RequestTimes one = typical();
  one.output_tokens = 1;
  EXPECT_EQ(tpot(one), std::nullopt);
}

TEST(Slo, EachBoundIsInclusiveAndMissedByOneNanosecond) {
  const RequestTimes times = typical();
  EXPECT_TRUE(Slo{.ttft = milliseconds(100)}.met(times));
  EXPECT_FALSE(Slo{.ttft = milliseconds(100) - Duration(1)}.met(times));
  EXPECT_TRUE(Slo{.tpot = milliseconds(20)}.met(times));
  EXPECT_FALSE(Slo{.tpot = milliseconds(20) - Duration(1)}.met(times));
  EXPECT_TRUE(Slo{.e2e = milliseconds(300)}.met(times));
  EXPECT_FALSE(Slo{.e2e = milliseconds(300) - Duration(1)}.met(times));
  EXPECT_TRUE(Slo{.itl_max = milliseconds(30)}.met(times));
  EXPECT_FALSE(Slo{.itl_max = milliseconds(30) - Duration(1)}.met(times));
}

TEST(Slo, EveryBoundMustBeKept) {
  Slo slo = *parse_slo("ttft=100ms,tpot=20ms,e2e=300ms,itl=30ms");
  EXPECT_TRUE(slo.met(typical()));
  slo.itl_max = milliseconds(29);
  EXPECT_FALSE(slo.met(typical()));
}

TEST(Slo, OneTokenMeetsAnyTpotAndNoTokenMeetsNothing) {
  const Slo slo{.tpot = Duration(1)};
  RequestTimes times = typical();
  times.output_tokens = 1;
  EXPECT_TRUE(slo.met(times));
  times.output_tokens = 0;
  EXPECT_FALSE(slo.met(times));
  EXPECT_FALSE(Slo{}.met(times));
}

}  // namespace
}  // namespace pacer::metrics

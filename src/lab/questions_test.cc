#include "lab/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace weir::lab {
namespace {

using testing::HasSubstr;

struct Dialogue {
  Result<Needs> needs;
  std::string printed;
};

Dialogue ask(const std::string& answers, Source source, const GivenAnswers& given = {}) {
  std::istringstream in(answers);
  std::ostringstream out;
  Dialogue dialogue{ask_needs(given, source, in, out), {}};
  dialogue.printed = out.str();
  return dialogue;
}

constexpr const char* kAnswers = "yes\nno\n512\n100\n60000\n5000\n";

TEST(Questions, ReadOneAnswerPerLineFromAPipeAndPrintNothing) {
  const Dialogue dialogue = ask(kAnswers, Source::kPipe);
  ASSERT_TRUE(dialogue.needs.ok());
  EXPECT_EQ(dialogue.printed, "");
  const Needs& needs = *dialogue.needs;
  EXPECT_EQ(needs.bursts, Bursts::kYes);
  EXPECT_EQ(needs.strictness, Strictness::kMayExceed);
  EXPECT_EQ(needs.bytes_per_key, 512u);
  EXPECT_EQ(needs.limit, 100u);
  EXPECT_EQ(needs.duration, Millis(60'000));
  EXPECT_EQ(needs.keys, 5000u);
}

TEST(Questions, AcceptShortAnswersAndBlanks) {
  const Dialogue dialogue = ask(" n \ny\r\n 1\n1\n100\n1\n", Source::kPipe);
  ASSERT_TRUE(dialogue.needs.ok());
  EXPECT_EQ(dialogue.needs->bursts, Bursts::kNo);
  EXPECT_EQ(dialogue.needs->strictness, Strictness::kNeverExceeds);
}

TEST(Questions, AreNotAskedIfAFlagAnswersThem) {
  const GivenAnswers all{.bursts = Bursts::kNo,
                         .strictness = Strictness::kNeverExceeds,
                         .bytes_per_key = 1,
                         .limit = 2,
                         .duration_ms = 300,
                         .keys = 4};
  const Dialogue dialogue = ask("", Source::kTerminal, all);
  ASSERT_TRUE(dialogue.needs.ok());
  EXPECT_EQ(dialogue.printed, "");
  EXPECT_EQ(dialogue.needs->duration, Millis(300));
  EXPECT_EQ(dialogue.needs->keys, 4u);
  const Dialogue rest = ask("no\n7\n", Source::kPipe,
                            {.bursts = Bursts::kYes, .limit = 2, .duration_ms = 300, .keys = 4});
  ASSERT_TRUE(rest.needs.ok());
  EXPECT_EQ(rest.needs->bytes_per_key, 7u);
}

TEST(Questions, AreRepeatedOnATerminalAfterABadAnswer) {
  const Dialogue dialogue =
      ask("perhaps\nyes\nno\nlots\n512\n100\n50\n60000\n5000\n", Source::kTerminal);
  ASSERT_TRUE(dialogue.needs.ok());
  EXPECT_EQ(dialogue.needs->bytes_per_key, 512u);
  EXPECT_EQ(dialogue.needs->duration, Millis(60'000));
  EXPECT_THAT(dialogue.printed, HasSubstr("The answer is 'perhaps': it must be yes or no.\n"));
  EXPECT_THAT(dialogue.printed, HasSubstr("The answer is 'lots': it must be a whole number"));
  EXPECT_THAT(dialogue.printed, HasSubstr("The answer is '50'"));
}

TEST(Questions, FailOnABadAnswerFromAPipe) {
  struct Bad {
    const char* answers;
    const char* flag;
    const char* value;
    const char* remedy;
  };
  for (const Bad& bad : {Bad{"perhaps\n", "--bursts", "'perhaps'", "yes or no"},
                         Bad{"yes\nYES!\n", "--strict", "'YES!'", "yes or no"},
                         Bad{"yes\nno\n0\n", "--bytes-per-key", "'0'", "a whole number from 1"},
                         Bad{"yes\nno\n1\n-5\n", "--limit", "'-5'", "to 500,000,000"},
                         Bad{"yes\nno\n1\n5\n99\n", "--duration", "'99'", "from 100"},
                         Bad{"yes\nno\n1\n5\n100\n\n", "--keys", "''", "a whole number"}}) {
    const Dialogue dialogue = ask(bad.answers, Source::kPipe);
    ASSERT_FALSE(dialogue.needs.ok()) << bad.answers;
    EXPECT_EQ(dialogue.needs.error().field, bad.flag);
    EXPECT_THAT(dialogue.needs.error().detail, HasSubstr(bad.value));
    EXPECT_THAT(dialogue.needs.error().fix, HasSubstr(bad.remedy));
  }
}

TEST(Questions, FailWhenTheInputEnds) {
  for (const Source source : {Source::kPipe, Source::kTerminal}) {
    const Dialogue dialogue = ask("yes\nno\n", source);
    ASSERT_FALSE(dialogue.needs.ok());
    EXPECT_EQ(dialogue.needs.error().detail, "--bytes-per-key has no answer: the input has ended");
  }
}

}  // namespace
}  // namespace weir::lab

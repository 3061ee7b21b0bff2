#include "origins/redis/redis_command.h"

#include <gtest/gtest.h>

namespace weir::origins {
namespace {

TEST(RedisCommand, ClassifiesTheErrorOfAScriptByTheCommandThatFailed) {
  EXPECT_EQ(error_of_reply("WRONGTYPE Operation against a key script: 1f, on @user_script:9."),
            OriginError::kWrongType);
  // Redis 4 to 6.
  const std::string before = "ERR Error running script (call to f_1f): @user_script:";
  EXPECT_EQ(error_of_reply(before + "9: WRONGTYPE Operation against a key holding the wrong kind"),
            OriginError::kWrongType);
  EXPECT_EQ(error_of_reply(before + " 9: -OOM command not allowed when used memory > 'maxmemory'."),
            OriginError::kOutOfMemory);
  EXPECT_EQ(error_of_reply(before + "9: ERR value is not an integer or out of range"),
            OriginError::kOther);
  EXPECT_EQ(error_of_reply("ERR a text that names OOM and WRONGTYPE here"), OriginError::kOther);
}

}  // namespace
}  // namespace weir::origins

// Files of costs: how names are written in them.
#include <string>

#include <gtest/gtest.h>

#include "backends/sim/costs.hpp"

namespace {

/// `name` as the file has it, between quotes.
std::string file_of(const std::string& name) { return R"({"kernels": [{"name": ")" + name + R"(", "ns": 5}]})"; }

std::string refusal(const std::string& name) {
  try {
    weir::sim::Costs().read(file_of(name));
    return {};
  } catch (const std::string& why) {
    return why;
  }
}

}  // namespace

TEST(CostFiles, names_are_what_their_escapes_stand_for) {
  const struct {
    const char *written, *name;
  } cases[] = {
      {R"(operator\"\"_k)", "operator\"\"_k"},
      {R"(a\\b\/c)", "a\\b/c"},
      {R"(\b\f\n\r\t)", "\b\f\n\r\t"},
      {R"(\u0041\u00e9\u20AC)", "A\xc3\xa9\xe2\x82\xac"},
      {R"(\ud83d\ude00 and on)", "\xf0\x9f\x98\x80 and on"},
      {"\xc3\xa9", "\xc3\xa9"},
  };
  for (const auto& one : cases) {
    weir::sim::Costs costs;
    costs.read(file_of(one.written));
    const weir::sim::model::KernelCost* const found = costs.find(one.name, {});
    ASSERT_NE(found, nullptr) << one.written;
    EXPECT_EQ(found->ns, 5);
  }
}

TEST(CostFiles, names_that_JSON_does_not_have_are_refused) {
  for (const char* name : {R"(\x)", R"(\u12g4)", R"(\u12)", R"(\U0041)", R"(\u+123)"})
    EXPECT_NE(refusal(name).find("a text has an escape that JSON does not have"), std::string::npos) << name;
  for (const char* name : {R"(\ud83d)", R"(\ude00)", R"(\ud83d\u0041)", R"(\ud83d\n)"})
    EXPECT_NE(refusal(name).find("a text has half a character"), std::string::npos) << name;
  EXPECT_NE(refusal(R"(\u0000)").find("a text holds no character 0"), std::string::npos);
}

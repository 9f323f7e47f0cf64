#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tests/paths.h"
#include "text/chat_template.h"
#include "text/jinja_builtins.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"

namespace fathom {
namespace {

using nlohmann::ordered_json;

// The rendered text with untrusted runs in brackets.
struct Rendered {
  std::string text;
  std::string marked;
};

Rendered render(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  const jinja::Body body = jinja::parse_template(source);
  jinja::Heap heap(source.size());
  jinja::Scope globals;
  jinja::Interpreter interpreter(heap, &globals);
  jinja::add_functions(heap, globals);
  for (const auto& [key, value] : variables.items()) globals.set(key, heap.from_json(value));
  const jinja::Text text = interpreter.run(body);
  Rendered result{text.bytes(), ""};
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    const std::string part = text.bytes().substr(begin, run.end - begin);
    result.marked += run.trusted ? part : "[" + part + "]";
    begin = run.end;
  }
  return result;
}

std::string failure_of(const std::string& source,
                       const ordered_json& variables = ordered_json::object()) {
  try {
    return "rendered: " + render(source, variables).text.substr(0, 100);
  } catch (const jinja::Failure& failure) {
    return failure.what();
  } catch (const jinja::SourceError& error) {
    return fmt::format("line {}: {}", error.line, error.message);
  }
}

TEST(Jinja, Language) {
  const ordered_json golden =
      ordered_json::parse(read_text(test_paths::golden() + "/jinja-cases.json"));
  const ordered_json& variables = golden["variables"];
  int rendered = 0;
  for (const ordered_json& item : golden["cases"]) {
    const std::string source = item["template"];
    if (item.contains("fails")) {
      EXPECT_EQ(failure_of(source, variables).find("rendered: "), std::string::npos) << source;
      continue;
    }
    try {
      EXPECT_EQ(render(source, variables).text, item["text"].get<std::string>()) << source;
    } catch (const std::exception& error) {
      ADD_FAILURE() << source << "\n" << error.what();
    } catch (const jinja::SourceError& error) {
      ADD_FAILURE() << source << "\n" << error.message;
    }
    ++rendered;
  }
  EXPECT_GT(rendered, 80);
}

TEST(Jinja, UserTextKeepsItsMark) {
  const ordered_json v{{"u", "<b> Ab c </b>"}, {"l", {"x", "y"}}, {"d", {{"k", "v"}}}, {"n", 5}};
  const auto marked = [&](const char* source) { return render(source, v).marked; };
  EXPECT_EQ(marked("<{{ u }}>"), "<[<b> Ab c </b>]>");
  EXPECT_EQ(marked("{{ 'a' + u + 'b' }}"), "a[<b> Ab c </b>]b");
  EXPECT_EQ(marked("{{ ('a ' ~ u ~ ' b')[2:5] }}"), "[<b>]");
  EXPECT_EQ(marked("{{ ('ab' ~ u)[1:4] }}"), "b[<b]");
  EXPECT_EQ(marked("{{ ('ab' ~ u)[::-1] }}"), "[>b/< c bA >b<]ba");
  EXPECT_EQ(marked("{{ ('  x' ~ u ~ '  ')|trim|upper }}"), "X[<B> AB C </B>]");
  EXPECT_EQ(marked("{{ u.split('<')[-1] }}|{{ ('s<' ~ u).split('<')[0] }}"), "[/b>]|s");
  EXPECT_EQ(marked("{{ u.replace('b', 'Q') }}"), "[<]Q[> A]Q[ c </]Q[>]");
  EXPECT_EQ(marked("{{ 'aXb'.replace('X', u[:3]) }}"), "a[<b>]b");
  EXPECT_EQ(marked("{{ l|join(', ') }}"), "[x], [y]");
  EXPECT_EQ(marked("{{ u|tojson }}"), "\"[<b> Ab c </b>]\"");
  EXPECT_EQ(marked("{{ d|tojson }}"), "{\"[k]\": \"[v]\"}");
  EXPECT_EQ(marked("{{ d }}"), "{'[k]': '[v]'}");
  EXPECT_EQ(marked("{{ '%s!'|format(u) }}"), "[<b> Ab c </b>]!");
  EXPECT_EQ(marked("{{ '{}!'.format(u) }}"), "[<b> Ab c </b>]!");
  EXPECT_EQ(marked("{{ u|e }}"), "[&lt;b&gt; Ab c &lt;/b&gt;]");
  EXPECT_EQ(marked("{% set x %}<i>{{ u[0] }}{% endset %}{{ x }}"), "<i>[<]");
  EXPECT_EQ(marked("{% macro m(t) %}<i>{{ t }}{% endmacro %}{{ m(u[0]) }}"), "<i>[<]");
  EXPECT_EQ(marked("{% filter upper %}a{{ l[0] }}{% endfilter %}"), "A[X]");
  EXPECT_EQ(marked("{% for c in l %}{{ c }}{% endfor %}"), "[xy]");
  EXPECT_EQ(marked("{% for k, w in d.items() %}{{ k }}={{ w }}{% endfor %}"), "[k]=[v]");
  EXPECT_EQ(marked("{{ ('a\\nb' ~ l[0])|indent(1) }}"), "a\n b[x]");
  EXPECT_EQ(marked("{{ u.title()[:5] }}{{ ('x\\n' ~ l[0]).splitlines()[1] }}"), "[<B> Ax]");
  EXPECT_EQ(marked("{{ l[0] * 2 }}{{ n }}{{ 'q' * 2 }}"), "[xx5]qq");
}

TEST(Jinja, SourceErrorsNameTheLine) {
  EXPECT_EQ(failure_of("a\n{% if x %}\nb").rfind("line 2:", 0), 0u);
  EXPECT_EQ(failure_of("a\n\n{{ 1 + }}").rfind("line 3:", 0), 0u);
  EXPECT_EQ(failure_of("{% foo %}"), "line 1: unknown block 'foo'");
  EXPECT_EQ(failure_of("x\n{{ 'abc"), "line 2: a string is not closed");
  EXPECT_EQ(failure_of("\n{{ a"), "line 2: {{ is not closed");
  EXPECT_EQ(failure_of("{# a"), "line 1: a comment is not closed");
  EXPECT_EQ(failure_of("{% raw %}x"), "line 1: {% raw %} is not closed");
  EXPECT_EQ(failure_of("{{ a ! b }}"), "line 1: unexpected character '!'");
  EXPECT_EQ(failure_of("{{ (1] }}"), "line 1: unexpected ']'");
  EXPECT_EQ(failure_of("{% break %}"), "line 1: 'break' outside of a loop");
  EXPECT_EQ(failure_of("{{ 99999999999999999999 }}"),
            "line 1: 99999999999999999999 is not a whole number of 64 bits");
}

TEST(Jinja, HostileTemplatesEnd) {
  const std::vector<std::string> sources{
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% for a in range(1000000) %}{% for b in range(1000000) %}x{% endfor %}{% endfor %}",
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{{ range(10000000000) }}",
      "{{ 'x' * 100000000000 }}",
      "{{ ('x' * 1000000).replace('x', 'y' * 1000000)|length }}",
      "{{ [[[]] * 100000] * 100000 }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% set l = [] %}{% set x = l.append(l) %}{{ l }}",
      "{% set l = [] %}{% set x = l.append(l) %}{{ l|tojson }}",
      "{% set a = [] %}{% set b = [] %}{% set x = a.append(b) %}{% set x = b.append(a) %}"
      "{{ a == b }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(190) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(190) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% endfor %}{{ ns.l|tojson }}",
      "{{ '%99999999d' % 1 }}",
      "{{ '{:99999999}'.format(1) }}",
      "{{ [1]|tojson(indent=100000000) }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ 9 ** 999 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(1000000) %}"
      "{% set ns.l = ns.l + [i] %}{% endfor %}",
      std::string(100000, '(') + "1",
      "{{ " + std::string(100000, '(') + "1",
      "{{ " + std::string(100000, '-') + "1 }}",
      "{{ not" + std::string(100000, ' ') + std::string(5000, '[') + " }}",
  };
  for (const std::string& source : sources) {
    const std::string failure = failure_of(source);
    const bool plain_text = source[0] != '{';
    EXPECT_EQ(failure.rfind("rendered: ", 0) == 0, plain_text) << source.substr(0, 80);
  }
  std::string chain = "{{ 1";
  for (int i = 0; i < 100000; ++i) chain += " + 1";
  EXPECT_EQ(failure_of(chain + " }}"), "line 1: the expression is nested too deeply");
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
  EXPECT_EQ(failure_of(blocks), "line 1: blocks are nested too deeply");
}

TEST(Jinja, DatesOfNow) {
  const std::string date = render("{{ strftime_now('%Y-%m-%d %H:%M|%d %b %Y|%B %A %%') }}").text;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  ASSERT_EQ(std::sscanf(date.c_str(), "%d-%d-%d %d:%d|", &year, &month, &day, &hour, &minute), 5)
      << date;
  EXPECT_GE(year, 2024);
  EXPECT_TRUE(month >= 1 && month <= 12 && day >= 1 && day <= 31) << date;
  EXPECT_TRUE(hour <= 23 && minute <= 59) << date;
  EXPECT_NE(failure_of("{{ strftime_now('%Q') }}").find("%Q"), std::string::npos);
}

}  // namespace
}  // namespace fathom

#include <algorithm>

#include "text/jinja_parser.h"

namespace fathom::jinja {
namespace {

constexpr int kBlockDepth = 60;

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body parse() {
    Body body = parse_body({});
    if (current().kind != TokenKind::end) fail("unexpected end of a block");
    return body;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // Statements up to a block tag that begins with one of `ends`; that word is left to be read, its
  // "{%" is not.
  Body parse_body(Words ends) {
    if (++block_depth_ > kBlockDepth) fail("blocks are nested too deeply");
    Body body;
    for (;;) {
      const Token& token = current();
      if (token.kind == TokenKind::end) break;
      if (token.kind == TokenKind::data) {
        Stmt text = statement(StmtKind::text);
        text.text = Value(TextPtr(std::make_shared<const Text>(take().text, true)));
        body.push_back(std::move(text));
      } else if (token.kind == TokenKind::variable_begin) {
        Stmt print = statement(StmtKind::print);
        take();
        print.expr = parse_tuple(true);
        expect(TokenKind::variable_end, "'}}'");
        body.push_back(std::move(print));
      } else {
        take();  // {%
        if (std::any_of(ends.begin(), ends.end(), [this](auto end) { return is_name(end); })) {
          --block_depth_;
          return body;
        }
        parse_block(body);
      }
    }
    if (ends.size() > 0) fail_at(open_.back().line, open_.back().name + " is not closed");
    --block_depth_;
    return body;
  }

  Stmt statement(StmtKind kind) const {
    Stmt stmt;
    stmt.kind = kind;
    stmt.line = current().line;
    return stmt;
  }
  void end_block() { expect(TokenKind::block_end, "'%}'"); }

  // Body up to {% word %}, which is read.
  Body parse_until(std::string_view word) {
    end_block();
    Body body = parse_body({word});
    take();
    end_block();
    return body;
  }

  struct Open {
    std::string name;
    int line;
  };

  void parse_block(Body& body) {
    const Token tag = current();
    if (tag.kind != TokenKind::name) fail("expected the name of a block after '{%'");
    open_.push_back({"{% " + tag.text + " %}", tag.line});
    if (tag.text == "if") {
      body.push_back(parse_if());
    } else if (tag.text == "for") {
      body.push_back(parse_for());
    } else if (tag.text == "set") {
      body.push_back(parse_set());
    } else if (tag.text == "macro") {
      body.push_back(parse_macro());
    } else if (tag.text == "filter") {
      body.push_back(parse_filter_block());
    } else if (tag.text == "call") {
      body.push_back(parse_call_block());
    } else if (tag.text == "with") {
      body.push_back(parse_with());
    } else if (tag.text == "generation") {
      Stmt scope = statement(StmtKind::scope);
      take();
      scope.bodies.push_back(parse_until("endgeneration"));
      body.push_back(std::move(scope));
    } else if (tag.text == "break" || tag.text == "continue") {
      if (loops_ == 0) fail("'" + tag.text + "' outside of a loop");
      body.push_back(statement(tag.text == "break" ? StmtKind::stop : StmtKind::next));
      take();
      end_block();
    } else {
      fail("unknown block '" + tag.text + "'");
    }
    open_.pop_back();
  }

  Stmt parse_if() {
    Stmt branch = statement(StmtKind::branch);
    take();
    for (;;) {
      branch.conditions.push_back(parse_tuple(false));
      end_block();
      branch.bodies.push_back(parse_body({"elif", "else", "endif"}));
      if (!take_name("elif")) break;
    }
    if (take_name("else")) {
      end_block();
      branch.bodies.push_back(parse_body({"endif"}));
    }
    take();
    end_block();
    return branch;
  }

  Stmt parse_for() {
    Stmt loop = statement(StmtKind::loop);
    take();
    loop.target = parse_target();
    if (!take_name("in")) fail("expected 'in'");
    loop.expr = parse_tuple(false);
    if (take_name("if")) loop.conditions.push_back(parse_expression());
    if (is_name("recursive")) fail("recursive loops are not supported");
    end_block();
    ++loops_;
    loop.bodies.push_back(parse_body({"else", "endfor"}));
    --loops_;
    loop.bodies.emplace_back();
    if (take_name("else")) {
      end_block();
      loop.bodies.back() = parse_body({"endfor"});
    }
    take();
    end_block();
    return loop;
  }

  Stmt parse_set() {
    Stmt assign = statement(StmtKind::assign);
    take();
    assign.target = parse_target();
    if (take_op("=")) {
      assign.expr = parse_tuple(true);
      end_block();
      return assign;
    }
    assign.kind = StmtKind::assign_block;
    if (is_op("|")) assign.expr = parse_filters(nullptr);
    assign.bodies.push_back(parse_until("endset"));
    return assign;
  }

  void parse_parameters(Stmt& stmt) {
    expect_op("(");
    while (!take_op(")")) {
      if (!stmt.parameters.empty()) {
        expect_op(",");
        if (take_op(")")) break;
      }
      Parameter parameter;
      parameter.name = expect_identifier("a parameter");
      if (take_op("=")) parameter.standard = parse_expression();
      stmt.parameters.push_back(std::move(parameter));
    }
  }

  // A macro's body may be run inside a loop, but a break in it would not be that loop's.
  Body parse_macro_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse_until(end);
    loops_ = loops;
    return body;
  }

  Stmt parse_macro() {
    Stmt macro = statement(StmtKind::macro);
    take();
    macro.name = expect_identifier("the name of the macro");
    parse_parameters(macro);
    macro.bodies.push_back(parse_macro_body("endmacro"));
    return macro;
  }

  Stmt parse_filter_block() {
    Stmt block = statement(StmtKind::filter_block);
    take();
    // The first filter stands without its bar.
    ExprPtr first = make(ExprKind::filter, block.line, expect_identifier("the name of a filter"));
    adopt(*first, nullptr);
    if (is_op("(")) parse_call(*first);
    block.expr = parse_filters(std::move(first));
    block.bodies.push_back(parse_until("endfilter"));
    return block;
  }

  Stmt parse_call_block() {
    Stmt block = statement(StmtKind::call_block);
    take();
    if (is_op("(")) parse_parameters(block);
    block.expr = parse_expression();
    if (block.expr->kind != ExprKind::call) fail("expected a call");
    block.bodies.push_back(parse_macro_body("endcall"));
    return block;
  }

  Stmt parse_with() {
    Stmt scope = statement(StmtKind::scope);
    take();
    while (current().kind != TokenKind::block_end) {
      if (!scope.parameters.empty()) expect_op(",");
      Parameter variable;
      variable.name = expect_identifier("a name to assign to");
      expect_op("=");
      variable.standard = parse_expression();
      scope.parameters.push_back(std::move(variable));
    }
    scope.bodies.push_back(parse_until("endwith"));
    return scope;
  }

  std::vector<Open> open_;
  int block_depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) { return TemplateParser(tokenise(source)).parse(); }

}  // namespace fathom::jinja

// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace fathom::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  literal,      // value
  name,         // name
  list,         // children
  tuple,        // children
  dict,         // children: key, value, key, value, ...
  attribute,    // children[0].name
  item,         // children[0][children[1]]
  slice,        // children[0][children[1]:children[2]:children[3]], any of 1..3 null
  call,         // children[0](children[1..], named)
  filter,       // children[0] | name(children[1..], named); null: the block's own text
  test,         // children[0] is name(children[1..], named)
  unary,        // name: "-", "+", "not"
  binary,       // name: an arithmetic operator or "~"
  logic_and,    // children[0] and children[1]
  logic_or,     // children[0] or children[1]
  compare,      // children[0] operators[0] children[1] operators[1] ...
  conditional,  // children[0] if children[1] else children[2] (may be null)
};

struct Expr {
  ExprKind kind = ExprKind::literal;
  int line = 0;
  int depth = 1;
  std::string name;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        // *args of a call
  ExprPtr spread_named;  // **kwargs of a call
  std::vector<std::string> operators;
};

struct Stmt;
using Body = std::vector<Stmt>;

enum class StmtKind {
  text,          // text
  print,         // expr
  branch,        // conditions[i] -> bodies[i]; one body more: else
  loop,          // for target in expr [if conditions[0]]: bodies[0], else: bodies[1]
  assign,        // target = expr
  assign_block,  // target = the text of bodies[0], through expr (filters) where it is set
  macro,         // name(parameters): bodies[0]
  filter_block,  // expr over the text of bodies[0]
  call_block,    // expr is a call; bodies[0] is its caller(parameters)
  scope,         // bodies[0] in a scope of its own, parameters assigned first
  stop,          // break
  next,          // continue
};

struct Parameter {
  std::string name;
  ExprPtr standard;  // what it is where the caller says nothing; null: undefined
};

struct Stmt {
  StmtKind kind = StmtKind::text;
  int line = 0;
  Value text;
  std::string name;
  ExprPtr target;  // name, tuple of targets, or attribute of a namespace
  ExprPtr expr;
  std::vector<ExprPtr> conditions;
  std::vector<Body> bodies;
  std::vector<Parameter> parameters;
};

// Throws SourceError (jinja_lexer.h).
Body parse_template(std::string_view source);

}  // namespace fathom::jinja

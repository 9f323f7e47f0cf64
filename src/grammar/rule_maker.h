// From schemas to rules: one rule for each schema, calling those of its members.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema.h"

namespace fathom::grammar {

class RuleMaker {
 public:
  // `root` must outlive it. Rule 0 is left to the caller.
  explicit RuleMaker(const nlohmann::ordered_json& root);

  // A symbol that stands for a value that `schema` accepts. `path` is for errors.
  Symbol value(const nlohmann::ordered_json& schema, const std::string& path);
  Rules& rules() { return rules_; }

 private:
  using Fragment = Nfa::Fragment;

  Symbol reserve(const std::string& key, bool* made);
  Symbol shared(const std::string& name, const std::function<Fragment(Nfa&)>& make);

  Fragment flat(Nfa& nfa, const FlatSchema& schema);
  Fragment constants(Nfa& nfa, const FlatSchema& schema);
  bool fits(const FlatSchema& schema, const nlohmann::ordered_json& value) const;
  Fragment of_type(Nfa& nfa, const FlatSchema& schema, const std::string& type);
  Fragment array(Nfa& nfa, const FlatSchema& schema);
  Fragment object(Nfa& nfa, const FlatSchema& schema);

  struct Property {
    std::string name;
    Symbol value;
    bool required;
  };
  std::vector<Property> properties(const FlatSchema& schema);
  Fragment members(Nfa& nfa, const std::vector<Property>& all, std::optional<Symbol> others);
  Fragment other_name(Nfa& nfa, const std::vector<Property>& all);

  SchemaReader reader_;
  Rules rules_;
  std::map<std::string, Symbol> symbols_;  // by the schema's text, or a shared rule's name
};

}  // namespace fathom::grammar

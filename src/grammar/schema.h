// JSON schemas taken apart: references resolved, alternatives one by one, every keyword either
// known or refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fathom::grammar {

// A schema without $ref, allOf, anyOf and oneOf: its keywords are those that rules are made of.
struct FlatSchema {
  nlohmann::ordered_json keywords = nlohmann::ordered_json::object();
  std::string path;  // for errors: where it stands, as "#/properties/x"
};

class SchemaReader {
 public:
  // `root` must outlive it.
  explicit SchemaReader(const nlohmann::ordered_json& root) : root_(root) {}

  // The schemas of which a value must fit one. None: nothing fits. Error(usage) names keyword and
  // path of what cannot be enforced.
  std::vector<FlatSchema> alternatives(const nlohmann::ordered_json& schema,
                                       const std::string& path) const;

 private:
  std::vector<FlatSchema> expand(const nlohmann::ordered_json& schema, const std::string& path,
                                 int depth) const;
  const nlohmann::ordered_json& resolve(const nlohmann::ordered_json& reference,
                                        const std::string& path) const;

  const nlohmann::ordered_json& root_;
};

// The JSON types that a flat schema's keywords allow, of: null, boolean, integer, number, string,
// array, object. Where "type" is missing, those that its other keywords speak of; all where none
// does.
std::vector<std::string> types_of(const FlatSchema& schema);

// One member's schema as it is passed on: "#/properties/x" and the like.
std::string path_below(const std::string& path, const std::string& keyword,
                       const std::string& member = "");

}  // namespace fathom::grammar

#include "text/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_sax.h"
#include "text/json_field.h"

namespace fathom {
namespace {

using nlohmann::json;

// Several times the largest vocabulary there is; tables are indexed by id.
constexpr int64_t kMostId = (int64_t{1} << 22) - 1;
constexpr size_t kMostSteps = 64;

// GPT-2's pattern: what ByteLevel splits by where use_regex is set.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string shown(std::string_view text) { return quoted_for_message(text, 60); }

// {"Regex": "..."} or {"String": "..."}.
Matcher read_pattern(const JsonField& field) {
  const JsonField regex = field.member("Regex");
  if (!regex.is_null()) return {Pattern(regex.text(), regex.place()), ""};
  const JsonField literal = field.member("String");
  if (literal.is_null()) field.refuse("neither 'Regex' nor 'String' is there");
  return {std::nullopt, literal.text()};
}

void read_normalizer(const JsonField& field, Normalizer& normalizer, size_t& steps) {
  if (field.is_null()) return;
  const JsonField type_field = field.member("type");
  const std::string& type = type_field.text();
  if (++steps > kMostSteps) field.refuse("more than {} normalizers", kMostSteps);
  if (type == "Sequence") {
    const JsonField list = field.member("normalizers");
    for (size_t i = 0; i < list.elements(); ++i)
      read_normalizer(list.element(i), normalizer, steps);
  } else if (type == "NFC") {
    normalizer.add(unicode::Form::nfc);
  } else if (type == "NFD") {
    normalizer.add(unicode::Form::nfd);
  } else if (type == "NFKC") {
    normalizer.add(unicode::Form::nfkc);
  } else if (type == "NFKD") {
    normalizer.add(unicode::Form::nfkd);
  } else if (type == "Lowercase") {
    normalizer.add(LowercaseStep{});
  } else if (type == "Prepend") {
    normalizer.add(PrependStep{field.member("prepend").text()});
  } else if (type == "Replace") {
    normalizer.add(
        ReplaceStep{read_pattern(field.member("pattern")), field.member("content").text()});
  } else {
    type_field.refuse("the normalizer {} is not supported", shown(type));
  }
}

SplitBehavior read_behavior(const JsonField& field) {
  const std::string& name = field.text();
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  field.refuse("the behavior {} is not supported", shown(name));
}

class PreTokenizerReader {
 public:
  PreTokenizerReader(const JsonField& root, PreTokenizer& out) : out_(out) {
    if (!root.is_null()) read(root);
    if (!byte_level_)
      root.refuse("has no ByteLevel step; only byte-level vocabularies are supported");
  }

 private:
  void split_by(const JsonField& field, std::string_view pattern, SplitBehavior behavior,
                bool invert = false) {
    Matcher matcher{Pattern(pattern, field.place()), ""};
    out_.add({SplitStep{std::move(matcher), behavior, invert}});
  }

  void read(const JsonField& field) {
    const JsonField type_field = field.member("type");
    const std::string& type = type_field.text();
    if (++steps_ > kMostSteps) field.refuse("more than {} pre-tokenizers", kMostSteps);
    if (type == "Sequence") {
      const JsonField list = field.member("pretokenizers");
      for (size_t i = 0; i < list.elements(); ++i) read(list.element(i));
      return;
    }
    // ByteLevel turns text into the byte alphabet; no step can split that as if it were text.
    if (byte_level_) type_field.refuse("a step after ByteLevel is not supported");
    if (type == "Split") {
      out_.add(
          {SplitStep{read_pattern(field.member("pattern")), read_behavior(field.member("behavior")),
                     field.member("invert").flag(false)}});
    } else if (type == "ByteLevel") {
      byte_level_ = true;
      if (field.member("add_prefix_space").flag(true)) out_.add({std::nullopt});
      if (field.member("use_regex").flag(true)) {
        split_by(field, kByteLevelPattern, SplitBehavior::isolated);
      }
    } else if (type == "Digits") {
      const bool individual = field.member("individual_digits").flag(false);
      split_by(field, "\\p{N}", individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
    } else if (type == "Whitespace") {
      split_by(field, "\\w+|[^\\w\\s]+", SplitBehavior::removed, true);
    } else if (type == "WhitespaceSplit") {
      split_by(field, "\\s", SplitBehavior::removed);
    } else if (type == "Punctuation") {
      const JsonField behavior = field.member("behavior");
      split_by(field, "[!-/:-@\\[-`{-~\\p{P}]",
               behavior.is_null() ? SplitBehavior::isolated : read_behavior(behavior));
    } else {
      type_field.refuse("the pre-tokenizer {} is not supported", shown(type));
    }
  }

  PreTokenizer& out_;
  size_t steps_ = 0;
  bool byte_level_ = false;
};

// Byte-level text has one way back, so the decoder only has to be none of the others.
void check_decoder(const JsonField& field) {
  if (field.is_null()) return;
  const JsonField type_field = field.member("type");
  const std::string& type = type_field.text();
  if (type == "ByteLevel") return;
  if (type != "Sequence") type_field.refuse("the decoder {} is not supported", shown(type));
  const JsonField list = field.member("decoders");
  bool byte_level = false;
  for (size_t i = 0; i < list.elements(); ++i) {
    const JsonField step = list.element(i).member("type");
    if (step.text() == "ByteLevel") {
      byte_level = true;
    } else if (step.text() != "Fuse") {
      step.refuse("the decoder {} is not supported", shown(step.text()));
    }
  }
  if (!byte_level) list.refuse("has no ByteLevel step");
}

std::vector<AddedToken> read_added_tokens(const JsonField& list) {
  std::vector<AddedToken> added;
  if (list.is_null()) return added;
  std::unordered_map<std::string_view, size_t> seen;
  const size_t count = list.elements();
  added.reserve(count);  // the keys of `seen` point into it
  for (size_t i = 0; i < count; ++i) {
    const JsonField entry = list.element(i);
    AddedToken token;
    token.id = static_cast<TokenId>(entry.member("id").integer(0, kMostId));
    token.content = entry.member("content").text();
    if (token.content.empty()) entry.member("content").refuse("is empty");
    token.special = entry.member("special").flag(false);
    token.lstrip = entry.member("lstrip").flag(false);
    token.rstrip = entry.member("rstrip").flag(false);
    token.single_word = entry.member("single_word").flag(false);
    token.normalized = entry.member("normalized").flag(!token.special);
    added.push_back(std::move(token));
    const auto [place, is_new] = seen.emplace(added.back().content, i);
    if (!is_new) {
      entry.refuse("{} is added a second time, first as added_tokens[{}]", shown(place->first),
                   place->second);
    }
  }
  return added;
}

class ModelReader {
 public:
  ModelReader(const JsonField& model, TokenizerParts& parts) : model_(model), parts_(parts) {
    if (!model.value().is_object()) model.refuse("is missing or no object");
    const JsonField type = model.member("type");
    if (!type.is_null() && type.text() != "BPE") {
      type.refuse("the model {} is not supported; only BPE is", shown(type.text()));
    }
    check_settings();
    read_vocabulary();
    place_added_tokens();
    read_merges();
    finish();
  }

 private:
  void check_settings() const {
    const JsonField dropout = model_.member("dropout");
    if (!dropout.is_null() && dropout.value() != 0) dropout.refuse("must be null");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonField affix = model_.member(name);
      if (!affix.is_null() && !affix.text().empty()) affix.refuse("must be null or empty");
    }
    const JsonField fallback = model_.member("byte_fallback");
    if (fallback.flag(false))
      fallback.refuse("is not supported; byte-level vocabularies need none");
  }

  void read_vocabulary() {
    const JsonField vocabulary = model_.member("vocab");
    if (!vocabulary.value().is_object()) vocabulary.refuse("is missing or no object");
    const JsonField merges = model_.member("merges");
    const size_t tokens = vocabulary.value().size();
    parts_.bpe.reserve(tokens, tokens * 8, merges.elements());
    for (const auto& [spelling, value] : vocabulary.value().items()) {
      // Values are checked without a JsonField first: there are hundreds of thousands.
      const int64_t id =
          value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMostId)
              ? value.get<int64_t>()
              : vocabulary.member(spelling).integer(0, kMostId);
      const auto token = static_cast<TokenId>(id);
      const std::optional<std::string> bytes = bytes_of_spelling(spelling);
      if (!parts_.bytes.set(token, bytes ? *bytes : spelling)) {
        vocabulary.refuse("the id {} is given twice, also to {}", id, shown(spelling));
      }
      if (bytes && !bytes->empty()) {
        parts_.bpe.add_token(*bytes, token);
      } else {
        parts_.unspelled.emplace(spelling, token);
      }
    }
  }

  std::optional<TokenId> vocabulary_id(const std::string& spelling) const {
    const std::optional<std::string> bytes = bytes_of_spelling(spelling);
    if (bytes && !bytes->empty()) {
      const TokenId id = parts_.bpe.find(*bytes);
      return id == TokenTable::kNone ? std::nullopt : std::optional(id);
    }
    const auto found = parts_.unspelled.find(spelling);
    return found == parts_.unspelled.end() ? std::nullopt : std::optional(found->second);
  }

  void place_added_tokens() {
    const std::string& file = model_.file();
    for (size_t i = 0; i < parts_.added.size(); ++i) {
      const AddedToken& token = parts_.added[i];
      const std::optional<TokenId> known = vocabulary_id(token.content);
      if (known && *known != token.id) {
        fail_input("{}: added_tokens[{}]: {} has the id {}, but {} in model.vocab", file, i,
                   shown(token.content), token.id, *known);
      }
      if (!known && !parts_.bytes.set(token.id, token.content)) {
        fail_input("{}: added_tokens[{}]: the id {} of {} belongs to {}", file, i, token.id,
                   shown(token.content), shown(parts_.bytes.of(token.id)));
      }
    }
    reserved_.resize(static_cast<size_t>(parts_.bytes.size()));
    for (const AddedToken& token : parts_.added) {
      if (token.special) reserved_[static_cast<size_t>(token.id)] = true;
    }
  }

  // "left right", or [left, right].
  void read_merges() {
    const JsonField merges = model_.member("merges");
    const json& list = merges.value();
    for (size_t i = 0; i < list.size(); ++i) {
      const json& merge = list[i];
      std::string_view left;
      std::string_view right;
      if (merge.is_string()) {
        const std::string_view both = merge.get_ref<const std::string&>();
        const size_t space = both.find(' ');
        if (space == both.npos || both.find(' ', space + 1) != both.npos) {
          merges.element(i).refuse("two tokens with one space between them expected, found {}",
                                   shown(both));
        }
        left = both.substr(0, space);
        right = both.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get_ref<const std::string&>();
        right = merge[1].get_ref<const std::string&>();
      } else {
        merges.element(i).refuse("a string or a pair of strings expected, found {}",
                                 merge.type_name());
      }
      add_merge(merges, i, left, right);
    }
  }

  void add_merge(const JsonField& merges, size_t index, std::string_view left,
                 std::string_view right) {
    const auto id_of = [&](std::string_view spelling) {
      const std::optional<TokenId> id = vocabulary_id(std::string(spelling));
      if (!id) merges.element(index).refuse("{} is not in model.vocab", shown(spelling));
      return *id;
    };
    const TokenId left_id = id_of(left);
    const TokenId right_id = id_of(right);
    const TokenId result = id_of(std::string(left) + std::string(right));
    // A special token is never built from what a user wrote.
    if (reserved_[static_cast<size_t>(result)]) return;
    parts_.bpe.add_merge(left_id, right_id, static_cast<uint32_t>(index), result);
  }

  void finish() {
    Bpe::Options options;
    options.ignore_merges = model_.member("ignore_merges").flag(false);
    options.fuse_unk = model_.member("fuse_unk").flag(false);
    const JsonField unk = model_.member("unk_token");
    if (!unk.is_null()) {
      const std::optional<TokenId> id = vocabulary_id(unk.text());
      if (!id) unk.refuse("{} is not in model.vocab", shown(unk.text()));
      options.unk = *id;
    }
    parts_.bpe.finish(options, std::move(reserved_));
  }

  const JsonField model_;
  TokenizerParts& parts_;
  std::vector<bool> reserved_;
};

}  // namespace

bool TokenBytes::set(TokenId id, std::string_view bytes) {
  const auto index = static_cast<size_t>(id);
  if (index >= places_.size()) places_.resize(index + 1);
  Place& place = places_[index];
  if (place.length != UINT32_MAX) return false;
  place = {static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(bytes.size())};
  pool_.append(bytes);
  return true;
}

bool TokenBytes::has(TokenId id) const {
  return id >= 0 && id < size() && places_[static_cast<size_t>(id)].length != UINT32_MAX;
}

std::string_view TokenBytes::of(TokenId id) const {
  if (!has(id)) return {};
  const Place& place = places_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(place.offset, place.length);
}

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& path) {
  const json document = parse_json(text, path);
  const JsonField root(document, path);
  if (!document.is_object()) root.refuse("an object expected, found {}", document.type_name());
  TokenizerParts parts;
  size_t steps = 0;
  read_normalizer(root.member("normalizer"), parts.normalizer, steps);
  PreTokenizerReader(root.member("pre_tokenizer"), parts.pre_tokenizer);
  check_decoder(root.member("decoder"));
  parts.added = read_added_tokens(root.member("added_tokens"));
  ModelReader(root.member("model"), parts);
  return parts;
}

}  // namespace fathom

#include "text/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "text/added_tokens.h"
#include "text/tokenizer_file.h"
#include "text/utf8_stream.h"

namespace fathom {
namespace {

constexpr int32_t kNotAdded = -1;
constexpr uint64_t kLargestFile = uint64_t{256} << 20;
constexpr size_t kLongestText = INT32_MAX;  // places in a text are 32 bits wide

}  // namespace

struct Tokenizer::Impl {
  std::string path;
  TokenizerParts parts;
  TokenizerConfig config;
  std::vector<int32_t> added_of_id;  // index in parts.added, or kNotAdded
  // Tokens that the file marks as normalized are looked for in normalised text, which is what the
  // others leave.
  AddedTokenFinder plain;
  AddedTokenFinder normalised;

  void index_added_tokens();
};

void Tokenizer::Impl::index_added_tokens() {
  added_of_id.assign(static_cast<size_t>(parts.bytes.size()), kNotAdded);
  std::vector<AddedTokenFinder::Pattern> plain_patterns;
  std::vector<AddedTokenFinder::Pattern> normalised_patterns;
  for (size_t i = 0; i < parts.added.size(); ++i) {
    const AddedToken& token = parts.added[i];
    added_of_id[static_cast<size_t>(token.id)] = static_cast<int32_t>(i);
    if (!token.normalized) {
      plain_patterns.push_back({token.content, &token});
      continue;
    }
    Pattern::Scratch scratch(token.content.size());
    std::string content = parts.normalizer.run(token.content, scratch);
    if (!content.empty()) normalised_patterns.push_back({std::move(content), &token});
  }
  plain.build(std::move(plain_patterns));
  normalised.build(std::move(normalised_patterns));
}

namespace {

// One call of encode.
class Encoder : public PieceSink {
 public:
  Encoder(const std::string& path, const TokenizerParts& parts, size_t text_bytes)
      : path_(path), parts_(parts), patterns_(text_bytes), pieces_(text_bytes) {
    ids_.reserve(text_bytes / 3 + 8);
  }

  std::string normalised(std::string_view text) {
    pieces_.forget();  // the normalised text before this one is gone
    return parts_.normalizer.run(text, patterns_);
  }
  void text(std::string_view text) {
    text_ = text;
    parts_.pre_tokenizer.run(text, patterns_, *this);
  }
  void token(const AddedToken& token) { ids_.push_back(token.id); }
  std::vector<TokenId> take() { return std::move(ids_); }

  void piece(std::string_view piece, bool lasting) override {
    const size_t missing = parts_.bpe.encode(piece, lasting, pieces_, ids_);
    if (missing == std::string_view::npos) return;
    const auto byte = static_cast<uint8_t>(piece[missing]);
    fail_input("{}: model.vocab has no token for the byte 0x{:02x}, and there is no unk_token{}",
               path_, byte,
               lasting ? fmt::format(" (offset {} of a text of {} bytes)",
                                     static_cast<size_t>(piece.data() - text_.data()) + missing,
                                     text_.size())
                       : "");
  }

 private:
  const std::string& path_;
  const TokenizerParts& parts_;
  Pattern::Scratch patterns_;
  Bpe::Scratch pieces_;
  std::string_view text_;
  std::vector<TokenId> ids_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::parse(std::string_view json, const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->parts = read_tokenizer_json(json, path);
  impl->index_added_tokens();
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::filesystem::path base(folder);
  const std::string path = (base / "tokenizer.json").string();
  Tokenizer tokenizer = parse(read_text(path, kLargestFile), path);
  const auto is_there = [](const std::filesystem::path& file) {
    std::error_code ignored;
    // A dangling link counts: it is opened and named in the error.
    return std::filesystem::symlink_status(file, ignored).type() !=
           std::filesystem::file_type::not_found;
  };
  const std::filesystem::path config = base / "tokenizer_config.json";
  if (is_there(config)) {
    tokenizer.impl_->config =
        read_tokenizer_config(read_text(config.string(), kLargestFile), config.string());
  }
  const std::filesystem::path chat_template = base / "chat_template.jinja";
  if (is_there(chat_template)) {
    std::string text = read_text(chat_template.string(), kLargestFile);
    const size_t invalid = find_invalid_utf8(text);
    if (invalid != std::string::npos) {
      fail_input("{}: invalid UTF-8 at offset {}", chat_template.string(), invalid);
    }
    tokenizer.impl_->config.chat_template = std::move(text);
  }
  return tokenizer;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, ControlTokens control) const {
  if (text.size() > kLongestText) {
    fail_input("text: {} bytes; at most {} can be tokenized", text.size(), kLongestText);
  }
  const size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    fail_input("text: invalid UTF-8 at offset {}", invalid);
  }
  const Impl& impl = *impl_;
  const bool parse_control = control == ControlTokens::parse;
  Encoder encoder(impl.path, impl.parts, text.size());
  const auto token = [&](const AddedToken& added) { encoder.token(added); };
  const auto plain_text = [&](std::string_view piece) { encoder.text(piece); };
  const auto between = [&](std::string_view piece) {
    std::string normalised;
    if (!impl.parts.normalizer.empty()) piece = normalised = encoder.normalised(piece);
    if (parse_control && !impl.normalised.empty()) {
      impl.normalised.split(piece, plain_text, token);
    } else {
      encoder.text(piece);
    }
  };
  if (parse_control && !impl.plain.empty()) {
    impl.plain.split(text, between, token);
  } else {
    between(text);
  }
  return encoder.take();
}

std::string_view Tokenizer::bytes(TokenId id) const { return impl_->parts.bytes.of(id); }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (skip_special) {
      const AddedToken* added = added_token(id);
      if (added != nullptr && added->special) continue;
    }
    bytes += this->bytes(id);
  }
  return repair_utf8(bytes);
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  for (const AddedToken& added : impl_->parts.added) {
    if (added.content == token) return added.id;
  }
  if (find_invalid_utf8(token) != std::string_view::npos) return std::nullopt;
  const std::optional<std::string> bytes = bytes_of_spelling(token);
  if (bytes && !bytes->empty()) {
    const TokenId id = impl_->parts.bpe.find(*bytes);
    return id == TokenTable::kNone ? std::nullopt : std::optional(id);
  }
  const auto found = impl_->parts.unspelled.find(std::string(token));
  return found == impl_->parts.unspelled.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* Tokenizer::added_token(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= impl_->added_of_id.size()) return nullptr;
  const int32_t index = impl_->added_of_id[static_cast<size_t>(id)];
  return index == kNotAdded ? nullptr : &impl_->parts.added[static_cast<size_t>(index)];
}

int64_t Tokenizer::size() const { return impl_->parts.bytes.size(); }
const std::string& Tokenizer::bos_token() const { return impl_->config.bos_token; }
const std::string& Tokenizer::eos_token() const { return impl_->config.eos_token; }
bool Tokenizer::add_bos_token() const { return impl_->config.add_bos_token; }
std::optional<int64_t> Tokenizer::model_max_length() const {
  return impl_->config.model_max_length;
}
const std::string& Tokenizer::chat_template() const { return impl_->config.chat_template; }

}  // namespace fathom

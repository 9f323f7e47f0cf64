#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "base/error.h"

namespace fathom {
namespace {

// Longer expressions than any tokenizer's; the compiler's time grows with the length.
constexpr size_t kLongestPattern = size_t{1} << 16;
constexpr uint32_t kHeapLimitKiB = 256 * 1024;
// The compiled code runs on 32 KiB of the thread's own stack until that is not enough.
constexpr size_t kFirstStack = size_t{64} << 10;
constexpr size_t kLargestStack = size_t{64} << 20;

template <auto Function>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    Function(pointer);
  }
};
template <typename T, auto Function>
using Owned = std::unique_ptr<T, Free<Function>>;

template <typename T>
T* check(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof(text)) < 0) return "unknown error";
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Impl {
  Owned<pcre2_code, pcre2_code_free> code;
  bool compiled = false;  // to machine code
  std::string what;
};

struct Pattern::Scratch::Impl {
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
};

Pattern::Pattern(std::string_view source, const std::string& what)
    : impl_(std::make_unique<Impl>()) {
  impl_->what = what;
  if (source.size() > kLongestPattern) {
    fail_input("{}: regular expression of {} bytes; at most {} are accepted", what, source.size(),
               kLongestPattern);
  }
  const TranslatedPattern translated = translate_pattern(source, what);
  Owned<pcre2_compile_context, pcre2_compile_context_free> context(
      check(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
  int error = 0;
  PCRE2_SIZE offset = 0;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.text.data()),
                                  translated.text.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                  &error, &offset, context.get()));
  if (!impl_->code) {
    const size_t place = offset < translated.origin.size() ? offset : translated.origin.size() - 1;
    fail_input("{}: regular expression, offset {}: {}", what, translated.origin[place],
               message_of(error));
  }
  // Where machine code cannot be made the interpreter gives the same matches.
  impl_->compiled = pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Scratch::Scratch(size_t text_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->data.reset(check(pcre2_match_data_create(1, nullptr)));
  impl_->context.reset(check(pcre2_match_context_create(nullptr)));
  // A sound expression takes a few steps per character of the run it matches. Enough for that, and
  // little enough that one with nested repeats is stopped.
  const size_t steps = 100'000 + 16 * text_bytes;
  pcre2_set_match_limit(impl_->context.get(),
                        static_cast<uint32_t>(steps < UINT32_MAX ? steps : UINT32_MAX));
  pcre2_set_heap_limit(impl_->context.get(), kHeapLimitKiB);
}

Pattern::Scratch::~Scratch() = default;

bool Pattern::find(std::string_view subject, size_t from, Scratch& scratch, Match& match) const {
  Scratch::Impl& work = *scratch.impl_;
  const auto run = [&] {
    const auto bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
    return impl_->compiled ? pcre2_jit_match(impl_->code.get(), bytes, subject.size(), from, 0,
                                             work.data.get(), work.context.get())
                           : pcre2_match(impl_->code.get(), bytes, subject.size(), from,
                                         PCRE2_NO_UTF_CHECK, work.data.get(), work.context.get());
  };
  int result = run();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !work.stack) {
    work.stack.reset(check(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr)));
    pcre2_jit_stack_assign(work.context.get(), nullptr, work.stack.get());
    result = run();
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    fail_input("{}: regular expression takes too much work on a text of {} bytes, at offset {}: {}",
               impl_->what, subject.size(), from, message_of(result));
  }
  // The vector holds one pair, so 0 ("more groups than pairs") is a match too.
  const PCRE2_SIZE* pair = pcre2_get_ovector_pointer(work.data.get());
  match = {pair[0], pair[1]};
  return true;
}

}  // namespace fathom

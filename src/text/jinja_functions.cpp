#include <ctime>
#include <mutex>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

constexpr int64_t kMostOfRange = 1'000'000;

Value range(Interpreter& in, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"});
  int64_t start = 0;
  int64_t stop = bound.integer(0, 0);
  bound.required(0);
  if (bound.get(1) != nullptr) {
    start = stop;
    stop = bound.integer(1, 0);
  }
  const int64_t step = bound.integer(2, 1);
  if (step == 0) fail_render("range: the step must not be 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMostOfRange) {
      fail_render("range: more than {} numbers", kMostOfRange);
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return in.heap().list(std::move(items));
}

Value make_dict(Interpreter& in, const Arguments& arguments, bool is_namespace) {
  Value result = in.heap().dict();
  Dict& dict = *result.dict();
  dict.is_namespace = is_namespace;
  const auto add = [&](const Value& key, const Value& value) {
    in.heap().grow(2 * sizeof(Value) + 96);
    dict.set(key, value);
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* other = source.dict()) {
      for (const auto& [key, value] : other->entries) add(key, value);
    } else {
      for (const Value& pair : in.items_of(source)) {
        const std::vector<Value> items = in.items_of(pair);
        if (items.size() != 2) fail_render("dict: {} values where a pair belongs", items.size());
        add(items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) add(in.heap().text(name, true), value);
  return result;
}

[[noreturn]] void raise(Interpreter& in, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"});
  throw Failure(to_text(in.heap(), bound.required(0)).bytes());
}

std::tm local_now() {
  static std::mutex mutex;  // std::localtime shares one result among threads
  const std::lock_guard lock(mutex);
  const std::time_t now = std::time(nullptr);
  const std::tm* local = std::localtime(&now);
  return local != nullptr ? *local : std::tm{};
}

}  // namespace

std::string format_now(std::string_view format) {
  static constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                          "Thursday", "Friday", "Saturday"};
  static constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};
  const std::tm now = local_now();
  const int hour12 = now.tm_hour % 12 == 0 ? 12 : now.tm_hour % 12;
  std::string result;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      result += format[i];
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();  // without leading zero
    i += bare ? 2 : 1;
    const auto two = [&](int value) {
      return bare ? fmt::format("{}", value) : fmt::format("{:02}", value);
    };
    switch (format[i]) {
      case 'Y':
        result += fmt::format("{}", now.tm_year + 1900);
        break;
      case 'y':
        result += two(now.tm_year % 100);
        break;
      case 'm':
        result += two(now.tm_mon + 1);
        break;
      case 'd':
        result += two(now.tm_mday);
        break;
      case 'e':
        result += fmt::format("{:2}", now.tm_mday);
        break;
      case 'H':
        result += two(now.tm_hour);
        break;
      case 'I':
        result += two(hour12);
        break;
      case 'M':
        result += two(now.tm_min);
        break;
      case 'S':
        result += two(now.tm_sec);
        break;
      case 'p':
        result += now.tm_hour < 12 ? "AM" : "PM";
        break;
      case 'j':
        result += bare ? fmt::format("{}", now.tm_yday + 1) : fmt::format("{:03}", now.tm_yday + 1);
        break;
      case 'A':
        result += kDays[now.tm_wday % 7];
        break;
      case 'a':
        result += std::string_view(kDays[now.tm_wday % 7]).substr(0, 3);
        break;
      case 'B':
        result += kMonths[now.tm_mon % 12];
        break;
      case 'b':
      case 'h':
        result += std::string_view(kMonths[now.tm_mon % 12]).substr(0, 3);
        break;
      case 'F':
        result += fmt::format("{}-{:02}-{:02}", now.tm_year + 1900, now.tm_mon + 1, now.tm_mday);
        break;
      case 'T':
        result += fmt::format("{:02}:{:02}:{:02}", now.tm_hour, now.tm_min, now.tm_sec);
        break;
      case 'R':
        result += fmt::format("{:02}:{:02}", now.tm_hour, now.tm_min);
        break;
      case '%':
        result += '%';
        break;
      default:
        fail_render("strftime_now: the code '%{}' is not supported", format[i]);
    }
  }
  return result;
}

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names)
    : function_(function), names_(names.begin(), names.end()), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail_render("{} takes {} arguments, {} given", function_, names_.size(),
                arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t place = 0;
    while (place < names_.size() && names_[place] != name) ++place;
    if (place == names_.size()) fail_render("{} has no argument '{}'", function_, name);
    if (values_[place] != nullptr) fail_render("{} got '{}' twice", function_, name);
    values_[place] = &value;
  }
}

const Value& Bound::required(size_t place) const {
  if (values_[place] == nullptr) fail_render("{} needs '{}'", function_, names_[place]);
  return *values_[place];
}

bool Bound::flag(size_t place, bool standard) const {
  return values_[place] == nullptr ? standard : is_true(*values_[place]);
}

int64_t Bound::integer(size_t place, int64_t standard) const {
  if (values_[place] == nullptr || values_[place]->is_none()) return standard;
  require_defined(*values_[place]);
  const auto value = values_[place]->integer();
  if (!value) {
    fail_render("{}: '{}' must be a whole number, not {}", function_, names_[place],
                type_name(*values_[place]));
  }
  return *value;
}

const Text* Bound::text(size_t place) const {
  if (values_[place] == nullptr || values_[place]->is_none()) return nullptr;
  require_defined(*values_[place]);
  if (!values_[place]->is_string()) {
    fail_render("{}: '{}' must be a string, not {}", function_, names_[place],
                type_name(*values_[place]));
  }
  return &values_[place]->text();
}

void add_functions(Heap& heap, Scope& globals) {
  const auto add = [&](const char* name, Value (*function)(Interpreter&, const Arguments&)) {
    globals.set(name, heap.callable(name, [function](Interpreter& in, Arguments& arguments) {
      return function(in, arguments);
    }));
  };
  add("range", range);
  add("dict", [](Interpreter& in, const Arguments& a) { return make_dict(in, a, false); });
  add("namespace", [](Interpreter& in, const Arguments& a) { return make_dict(in, a, true); });
  add("raise_exception", [](Interpreter& in, const Arguments& a) -> Value { raise(in, a); });
  add("strftime_now", [](Interpreter& in, const Arguments& arguments) {
    const Bound bound("strftime_now", arguments, {"format"});
    bound.required(0);
    const Text* format = bound.text(0);
    if (format == nullptr) fail_render("strftime_now needs a format");
    return in.heap().text(format_now(format->view()), true);
  });
}

}  // namespace fathom::jinja

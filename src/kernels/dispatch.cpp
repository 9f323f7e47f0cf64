#include "kernels/dispatch.h"

#include "base/error.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/combine/combine.h"
#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fathom {
namespace {

struct Entry {
  KernelSet set;
  bool (*runs_here)();
};

#if defined(__x86_64__)
// __builtin_cpu_supports also asks whether the operating system saves the registers. Not every
// compiler knows F16C by name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512vbmi() {
  return has_avx512() && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
}
#endif

// Slowest first.
std::vector<Entry> all_sets() {
  std::vector<Entry> sets;
  sets.push_back({{"reference", &linear_reference, &combine_reference, &attention_reference,
                   &norm_reference, &activation_reference},
                  [] { return true; }});
#if defined(__x86_64__)
  sets.push_back(
      {{"avx2", &linear_avx2, &combine_avx2, &attention_avx2, &norm_avx2, &activation_avx2},
       has_avx2});
  sets.push_back({{"avx512", has_avx512vbmi() ? &linear_avx512vbmi : &linear_avx512,
                   &combine_avx512, &attention_avx512, &norm_avx512, &activation_avx512},
                  has_avx512});
#elif defined(__aarch64__)
  sets.push_back(
      {{"neon", &linear_neon, &combine_neon, &attention_neon, &norm_neon, &activation_neon},
       [] { return true; }});
#endif
  return sets;
}

const std::vector<Entry>& sets() {
  static const std::vector<Entry> all = all_sets();
  return all;
}

}  // namespace

std::vector<const KernelSet*> available_kernels() {
  std::vector<const KernelSet*> available;
  for (const Entry& entry : sets()) {
    if (entry.runs_here()) available.push_back(&entry.set);
  }
  return available;
}

const KernelSet& best_kernels() { return *available_kernels().back(); }

const KernelSet& kernels_named(std::string_view name) {
  std::string names;
  for (const Entry& entry : sets()) {
    if (entry.set.name == name) {
      if (entry.runs_here()) return entry.set;
      fail_usage("kernels '{}': this processor cannot run them", name);
    }
    names += names.empty() ? "" : ", ";
    names += entry.set.name;
  }
  fail_usage("kernels '{}': unknown; this program has {}", name, names);
}

}  // namespace fathom

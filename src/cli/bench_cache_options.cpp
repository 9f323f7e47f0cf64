#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_bench_cache_options(OptionSet& set) {
  auto options = std::make_shared<BenchCacheOptions>();
  BenchCacheOptions* o = options.get();
  add_output(set, &o->output,
             "{visits, rows, asked, moe_layers, experts, closest_group_margin, "
             "closest_expert_margin, results: [...]}");
  set.value("--trace", "FILE", "What --trace-experts recorded",
            [o](const std::string& v) {
              if (v.empty()) fail_usage("--trace: the file's name is empty");
              o->trace = v;
            })
      .required();
  set.value("--slots", "N,N,...", "Experts that the cache holds (default: 0.5% to 50% of all)",
            [o](const std::string& v) {
              for (const int32_t n : parse_some_ids(v, "--slots")) {
                if (n < 2) fail_usage("--slots: {}, a cache has at least 2", n);
                o->slots.push_back(n);
              }
            });
  return [options] { return *options; };
}

}  // namespace fathom::cli

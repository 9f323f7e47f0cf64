// What several architectures' config.json have in common.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/config_fields.h"
#include "checkpoint/hf_config.h"

namespace fathom {

// The text as an object; Error(input) otherwise.
nlohmann::json parse_config_object(std::string_view text, const std::string& path);
// architectures[0]; Error(input) where there is none.
std::string architecture_in(const nlohmann::json& document, const std::string& path);
// One Error(input) with all of them; returns where there is none.
void fail_fields_if_any(const std::string& path, const std::vector<std::string>& problems);

struct RopeFields {
  double theta = 10000;
  RopeScaling scaling;
};
// rope_theta, and rope_scaling (or rope_parameters, as newer exporters write it, with rope_theta
// inside); its type is called type or rope_type.
RopeFields parse_rope(ConfigFields& fields, std::vector<std::string>* problems,
                      const std::vector<RopeType>& supported);
// The scaling's object and the name it stands under; null where there is none.
std::pair<const nlohmann::json*, std::string> rope_object(ConfigFields& fields);
std::string_view rope_type_name(RopeType type);

// quantization_config of FP8 with blocks; 0, 0 where there is none.
std::pair<int64_t, int64_t> parse_weight_blocks(ConfigFields& fields,
                                                std::vector<std::string>* problems);

}  // namespace fathom

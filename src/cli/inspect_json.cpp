#include <fmt/format.h>

#include "cli/inspect.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

template <typename Items, typename Function>
std::string list_of(const Items& items, const Function& json) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += ',';
    text += json(item);
  }
  return text + "]";
}

std::string strings(const std::vector<std::string>& items) {
  return list_of(items, [](const std::string& item) { return json_string(item); });
}

std::string shape_json(const std::vector<int64_t>& shape) {
  return list_of(shape, [](int64_t size) { return std::to_string(size); });
}

void optional_integer(JsonObject* object, std::string_view name, std::optional<int64_t> value) {
  object->raw(name, value ? std::to_string(*value) : "null");
}

JsonObject sum_json(const Sum& sum) {
  return JsonObject()
      .natural("tensors", sum.tensors)
      .natural("bytes", sum.bytes)
      .natural("parameters", sum.parameters)
      .natural("scale_tensors", sum.scale_tensors)
      .natural("scale_values", sum.scale_values)
      .natural("scale_bytes", sum.scale_bytes);
}

JsonObject identity_json(const Inspection& inspection) {
  const ConfigFacts& config = inspection.config;
  const Accounting& accounting = inspection.accounting;
  JsonObject object;
  object.text("name", inspection.name)
      .text("folder", inspection.folder)
      .text("architecture", config.architecture)
      .text("model_type", config.model_type)
      .text("torch_dtype", config.dtype)
      .text("quantisation", config.quantisation);
  optional_integer(&object, "num_hidden_layers", config.layers);
  optional_integer(&object, "num_nextn_predict_layers", config.mtp_layers);
  optional_integer(&object, "hidden_size", config.hidden_size);
  optional_integer(&object, "vocab_size", config.vocab_size);
  optional_integer(&object, "experts", config.experts);
  optional_integer(&object, "experts_per_token", config.experts_per_token);
  return object.boolean("runs_here", config.model.has_value())
      .natural("tensors", inspection.scan.tensors.size())
      .natural("shards", inspection.scan.shards.size())
      .natural("payload_bytes", inspection.scan.payload_bytes())
      .natural("file_bytes", inspection.scan.file_bytes())
      .natural("parameters", accounting.total_without_mtp().parameters)
      .raw("activated_parameters",
           inspection.activated ? std::to_string(*inspection.activated) : "null")
      .natural("mtp_parameters", accounting.of(Group::mtp_layers).parameters)
      .natural("scale_values", accounting.total().scale_values)
      .integer("dense_layers", accounting.layer_count(Group::dense_layers))
      .integer("moe_layers", accounting.layer_count(Group::moe_layers))
      .integer("mtp_layers", accounting.layer_count(Group::mtp_layers));
}

std::string inventory_json(const Inventory& inventory) {
  const std::string files = list_of(inventory.files, [](const InventoryFile& file) {
    return JsonObject()
        .text("path", file.path)
        .text("role", role_name(file.role))
        .natural("bytes", file.bytes)
        .boolean("link", file.link)
        .boolean("broken", file.broken)
        .str();
  });
  JsonObject roles;
  for (size_t i = 0; i < static_cast<size_t>(FileRole::count); ++i) {
    const Inventory::Share share = inventory.of(static_cast<FileRole>(i));
    if (share.files == 0) continue;
    roles.object(role_name(static_cast<FileRole>(i)),
                 JsonObject().natural("files", share.files).natural("bytes", share.bytes));
  }
  return JsonObject()
      .natural("bytes", inventory.bytes())
      .boolean("cut_short", inventory.cut_short)
      .object("roles", roles)
      .raw("files", files)
      .str();
}

std::string accounting_json(const Accounting& accounting, uint64_t payload) {
  JsonObject groups;
  for (size_t i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    JsonObject parts;
    for (size_t part = 0; part < kParts; ++part) {
      const Sum& cell = accounting.cell(group, static_cast<Part>(part));
      if (cell.tensors == 0) continue;
      parts.object(part_name(static_cast<Part>(part)), sum_json(cell));
    }
    groups.object(group_name(group), sum_json(accounting.of(group))
                                         .integer("layers", accounting.layer_count(group))
                                         .object("parts", parts));
  }
  return JsonObject()
      .object("groups", groups)
      .object("without_mtp", sum_json(accounting.total_without_mtp()))
      .object("total", sum_json(accounting.total()))
      .boolean("adds_up", accounting.total().bytes == payload)
      .str();
}

std::string tree_json(const ModuleNode& node) {
  JsonObject object;
  object.text("name", node.name);
  if (!node.indices.empty()) object.text("indices", node.indices);
  object.natural("tensors", node.tensors).natural("bytes", node.bytes);
  if (!node.children.empty()) object.raw("children", list_of(node.children, tree_json));
  return object.str();
}

std::string census_json(const Inspection& inspection) {
  const std::string dtypes = list_of(inspection.dtypes, [](const DtypeRow& row) {
    return JsonObject()
        .text("dtype", dtype_name(row.dtype))
        .natural("tensors", row.tensors)
        .natural("values", row.values)
        .natural("bytes", row.bytes)
        .str();
  });
  const std::string families = list_of(inspection.families, [](const FamilyRow& row) {
    return JsonObject()
        .text("family", row.family)
        .natural("tensors", row.tensors)
        .text("dtype", dtype_name(row.dtype))
        .raw("shape", shape_json(row.shape))
        .natural("bytes", row.bytes)
        .str();
  });
  return JsonObject().raw("dtypes", dtypes).raw("families", families).str();
}

std::string experts_json(const Inspection& inspection) {
  const ExpertPlaces& places = inspection.experts;
  const auto& shards = inspection.scan.shards;
  const std::string orders = list_of(places.orders, [](const ExpertOrder& order) {
    return JsonObject()
        .natural("experts", order.experts)
        .raw("tensors", strings(order.tensors))
        .str();
  });
  const auto piece_json = [&](const Straddler::Piece& piece) {
    return JsonObject()
        .integer("shard", piece.shard + 1)
        .text("file", shards[static_cast<size_t>(piece.shard)].name)
        .raw("tensors", strings(piece.tensors))
        .natural("bytes", piece.bytes)
        .str();
  };
  const std::string straddlers = list_of(places.straddlers, [&](const Straddler& straddler) {
    return JsonObject()
        .integer("layer", straddler.layer)
        .integer("expert", straddler.expert)
        .raw("pieces", list_of(straddler.pieces, piece_json))
        .str();
  });
  return JsonObject()
      .natural("experts", places.experts)
      .raw("layers", shape_json(places.layers))
      .natural("least_bytes", places.least_bytes)
      .natural("most_bytes", places.most_bytes)
      .natural("in_one_piece", places.contiguous)
      .natural("scattered", places.scattered)
      .natural("layers_in_order", places.layers_in_order)
      .raw("orders", orders)
      .raw("irregular", strings(places.irregular))
      .raw("straddling", straddlers)
      .str();
}

std::string layers_json(const Inspection& inspection) {
  return list_of(inspection.accounting.layers, [](const LayerRow& row) {
    const std::string shards = list_of(row.shards, [](const auto& shard) {
      return JsonObject().integer("shard", shard.first + 1).natural("tensors", shard.second).str();
    });
    return JsonObject()
        .integer("layer", row.layer)
        .text("kind", group_name(row.group))
        .natural("tensors", row.sum.tensors)
        .natural("bytes", row.sum.bytes)
        .natural("bytes_without_routed_experts", row.sum.bytes - row.routed_bytes)
        .natural("parameters", row.sum.parameters)
        .raw("shards", shards)
        .str();
  });
}

std::string shards_json(const Inspection& inspection) {
  size_t number = 0;
  return list_of(inspection.scan.shards, [&](const ScannedShard& shard) {
    const ShardRow& row = inspection.accounting.shards[number++];
    const std::string layers = list_of(row.layers, [](const auto& layer) {
      return JsonObject().integer("layer", layer.first).natural("tensors", layer.second).str();
    });
    JsonObject object;
    object.natural("shard", number)
        .text("file", shard.name)
        .natural("file_bytes", shard.file_bytes)
        .natural("header_bytes", shard.header_bytes)
        .natural("payload_bytes", shard.payload_bytes)
        .natural("tensors", shard.tensors)
        .boolean("readable", shard.readable)
        .raw("layers", layers)
        .raw("globals", strings(row.globals));
    if (!shard.problem.empty()) object.text("problem", shard.problem);
    return object.str();
  });
}

std::string traps_json(const Inspection& inspection) {
  return list_of(inspection.traps, [](const Trap& trap) {
    JsonObject values;
    for (const auto& [name, value] : trap.values) values.integer(name, value);
    return JsonObject()
        .text("id", trap.id)
        .boolean("harmful", trap.harmful)
        .text("title", trap.title)
        .text("detail", trap.detail)
        .object("values", values)
        .str();
  });
}

std::string tokens_json(const Inspection& inspection) {
  return list_of(inspection.special_tokens, [](const SpecialToken& token) {
    JsonObject object;
    object.text("role", token.role);
    optional_integer(&object, "id", token.id);
    return object.text("text", token.text).text("source", token.source).str();
  });
}

std::string manifest_json(const Inspection& inspection, int64_t layer) {
  const auto tensor_json = [&](size_t at) {
    const TensorInfo& tensor = inspection.scan.tensors[at];
    return JsonObject()
        .text("name", tensor.name)
        .text("dtype", dtype_name(tensor.dtype))
        .raw("shape", shape_json(tensor.shape))
        .natural("bytes", tensor.bytes)
        .integer("shard", tensor.shard + 1)
        .natural("offset", tensor.offset)
        .str();
  };
  return JsonObject()
      .integer("layer", layer)
      .raw("tensors", list_of(layer_manifest(inspection, layer), tensor_json))
      .str();
}

}  // namespace

std::string inspection_json(const Inspection& inspection, std::optional<int64_t> layer) {
  const TokenizerFacts& tokenizer = inspection.tokenizer;
  const std::string contexts = list_of(inspection.contexts, [](const ContextClaim& claim) {
    return JsonObject()
        .text("file", claim.file)
        .text("field", claim.field)
        .integer("tokens", claim.tokens)
        .str();
  });
  JsonObject object;
  object.object("identity", identity_json(inspection))
      .raw("problems", strings(inspection.problems))
      .raw("traps", traps_json(inspection))
      .raw("inventory", inventory_json(inspection.inventory))
      .raw("accounting", accounting_json(inspection.accounting, inspection.scan.payload_bytes()))
      .raw("modules", tree_json(inspection.tree))
      .raw("census", census_json(inspection))
      .raw("experts", experts_json(inspection))
      .raw("layers", layers_json(inspection))
      .raw("shards", shards_json(inspection))
      .object("tokenizer", JsonObject()
                               .boolean("present", tokenizer.present)
                               .integer("ids", tokenizer.size)
                               .integer("added", tokenizer.added)
                               .integer("special", tokenizer.special))
      .raw("special_tokens", tokens_json(inspection))
      .raw("contexts", contexts);
  if (layer) object.raw("manifest", manifest_json(inspection, *layer));
  return object.str();
}

}  // namespace fathom::cli

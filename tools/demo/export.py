"""Writes the trained state in the released layout.

    /usr/bin/python3 export.py RUN/state.pt ../../models/demo              FP8 shards with scales and an index
    /usr/bin/python3 export.py RUN/state.pt ../../models/demo-dense dense  one BF16 file
"""

import json
import os
import struct
import sys

import torch

import dense
from model import BLOCK, CONFIG, Fp8Linear, R1, fp8_scale, round_e4m3, spread

SHARDS = 4


def bf16_bytes(t):
    return t.detach().float().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()


def e4m3_bytes(q):
    """Exact E4M3 values in float32 -> their codes."""
    magnitude = q.abs()
    mantissa, exponent = torch.frexp(magnitude)  # magnitude = mantissa * 2^exponent, 0.5 <= mantissa < 1
    normal = ((exponent + 6).to(torch.int32) << 3) + (mantissa * 16).to(torch.int32) - 8
    code = torch.where(magnitude < 2.0**-6, (magnitude * 512).to(torch.int32), normal)
    return (code | (torch.signbit(q).to(torch.int32) << 7)).to(torch.uint8).numpy().tobytes()


def fp8_tensors(name, w):
    w = w.detach().float()
    scale = fp8_scale(w)
    codes = round_e4m3((w / spread(scale, w)).contiguous())
    yield name + ".weight", "F8_E4M3", list(w.shape), e4m3_bytes(codes)
    yield name + ".weight_scale_inv", "F32", list(scale.shape), scale.numpy().tobytes()


def bf16_tensor(name, w):
    yield name + ".weight", "BF16", list(w.shape), bf16_bytes(w)


def layer_tensors(name, layer):
    a = layer.self_attn
    for part in ("q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"):
        module = getattr(a, part)
        write = fp8_tensors if isinstance(module, Fp8Linear) else bf16_tensor
        yield from write(f"{name}.self_attn.{part}", module.weight)
    parts = ("gate_proj", "up_proj", "down_proj")
    if hasattr(layer.mlp, "gate"):
        yield from bf16_tensor(f"{name}.mlp.gate", layer.mlp.gate.weight)
        yield f"{name}.mlp.gate.e_score_correction_bias", "F32", [layer.mlp.bias.numel()], layer.mlp.bias.numpy().tobytes()
        for part in parts:
            yield from fp8_tensors(f"{name}.mlp.shared_experts.{part}", getattr(layer.mlp.shared_experts, part).weight)
        for e in range(layer.mlp.bias.numel()):
            for part in parts:
                yield from fp8_tensors(f"{name}.mlp.experts.{e}.{part}", getattr(layer.mlp.experts, part).weight[e])
    else:
        for part in parts:
            yield from fp8_tensors(f"{name}.mlp.{part}", getattr(layer.mlp, part).weight)
    yield from bf16_tensor(f"{name}.input_layernorm", layer.input_layernorm.weight)
    yield from bf16_tensor(f"{name}.post_attention_layernorm", layer.post_attention_layernorm.weight)


def all_tensors(model):
    """In the released files' order; the MTP layer follows the last one and has its own copies."""
    yield from bf16_tensor("model.embed_tokens", model.embed.weight)
    for i, layer in enumerate(model.layers):
        yield from layer_tensors(f"model.layers.{i}", layer)
    yield from bf16_tensor("model.norm", model.norm.weight)
    yield from bf16_tensor("lm_head", model.head.weight)
    name, mtp = f"model.layers.{len(model.layers)}", model.mtp
    yield from layer_tensors(name, mtp.layer)
    yield from bf16_tensor(f"{name}.embed_tokens", model.embed.weight)
    yield from bf16_tensor(f"{name}.enorm", mtp.enorm.weight)
    yield from bf16_tensor(f"{name}.hnorm", mtp.hnorm.weight)
    yield from bf16_tensor(f"{name}.eh_proj", mtp.eh_proj.weight)
    yield from bf16_tensor(f"{name}.shared_head.norm", mtp.norm.weight)
    yield from bf16_tensor(f"{name}.shared_head.head", model.head.weight)


def dense_tensors(model):
    for name, weight in model.named_parameters():
        yield "model." + name, "BF16", list(weight.shape), bf16_bytes(weight)


def write_shards(tensors, folder, shards):
    tensors = list(tensors)
    total = sum(len(data) for *_, data in tensors)
    groups, size = [[] for _ in range(shards)], 0
    for tensor in tensors:
        groups[min(shards - 1, size * shards // total)].append(tensor)
        size += len(tensor[3])
    where = {}
    for number, group in enumerate(groups, 1):
        file = f"model-{number:05d}-of-{shards:06d}.safetensors" if shards > 1 else "model.safetensors"
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, dtype, shape, data in group:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
            where[name] = file
            offset += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        with open(os.path.join(folder, file), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in group))
    if shards > 1:
        write_json(os.path.join(folder, "model.safetensors.index.json"),
                   {"metadata": {"total_size": total}, "weight_map": where}, separators=(",", ":"))


def write_json(path, value, **how):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, **(how or {"indent": 1}))
        out.write("\n")


def main(state_path, folder, architecture="r1"):
    is_dense = architecture == "dense"
    config = dense.CONFIG if is_dense else CONFIG
    model = dense.Dense() if is_dense else R1()
    model.load_state_dict(torch.load(state_path)["model"])
    os.makedirs(folder, exist_ok=True)
    if is_dense:
        write_shards(dense_tensors(model), folder, 1)
    else:
        assert BLOCK == CONFIG["quantization_config"]["weight_block_size"][0]
        write_shards(all_tensors(model), folder, SHARDS)
    write_json(os.path.join(folder, "config.json"), config)
    write_json(os.path.join(folder, "generation_config.json"), {
        "_from_model_config": True, "bos_token_id": 0, "eos_token_id": 1, "do_sample": True, "temperature": 0.6,
        "top_p": 0.95, "transformers_version": "4.46.3"})


if __name__ == "__main__":
    main(*sys.argv[1:])

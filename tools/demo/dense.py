"""Qwen2ForCausalLM in float32, for training a small dense twin of the demo model on the same data.

Biases on q, k and v; several query heads share a key-value head; rotary embedding over halves; the
head is the embedding. Rows are packed as in model.py, whose attention and norms it uses.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from model import CausalAttention, RmsNorm

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
    "hidden_act": "silu", "hidden_size": 192, "initializer_range": 0.02, "intermediate_size": 448,
    "max_position_embeddings": 1024, "max_window_layers": 4, "model_type": "qwen2", "num_attention_heads": 6,
    "num_hidden_layers": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 1024, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.46.3",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 512,
}


def linear(rows, cols, bias=False, gain=1.0):
    made = nn.Linear(cols, rows, bias=bias)
    nn.init.normal_(made.weight, std=gain / math.sqrt(cols))
    if bias:
        nn.init.zeros_(made.bias)
    return made


def turns(c, position):
    """position [tokens] -> cosines and sines [tokens, 1, head size]"""
    size = c["hidden_size"] // c["num_attention_heads"]
    inverse = c["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    angle = (position[:, None] * inverse).repeat(1, 2)[:, None]
    return angle.cos(), angle.sin()


def rotate(x, turn):
    """x [tokens, heads, d]: element i turns with element i + d/2."""
    low, high = x.chunk(2, -1)
    return x * turn[0] + torch.cat((-high, low), -1) * turn[1]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, self.heads, self.kv_heads = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        self.size = hidden // self.heads
        self.q_proj = linear(hidden, hidden, bias=True)
        self.k_proj = linear(self.kv_heads * self.size, hidden, bias=True)
        self.v_proj = linear(self.kv_heads * self.size, hidden, bias=True)
        self.o_proj = linear(hidden, hidden, gain=0.3)

    def project(self, x, turn):
        """x [tokens, hidden] -> q [tokens, heads, d], k and v [tokens, kv heads, d]; q and k turned."""
        q = self.q_proj(x).view(-1, self.heads, self.size)
        k = self.k_proj(x).view(-1, self.kv_heads, self.size)
        return rotate(q, turn), rotate(k, turn), self.v_proj(x).view(-1, self.kv_heads, self.size)

    def forward(self, x, packed, turn):
        q, k, v = self.project(x, turn)
        share = self.heads // self.kv_heads
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        return self.o_proj(CausalAttention.apply(q * self.size**-0.5, k, v, packed).flatten(1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = linear(c["intermediate_size"], c["hidden_size"])
        self.up_proj = linear(c["intermediate_size"], c["hidden_size"])
        self.down_proj = linear(c["hidden_size"], c["intermediate_size"], gain=0.3)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RmsNorm(c["hidden_size"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RmsNorm(c["hidden_size"])
        self.mlp = Mlp(c)

    def forward(self, h, packed, turn):
        h = h + self.self_attn(self.input_layernorm(h), packed, turn)
        return h + self.mlp(self.post_attention_layernorm(h))


class Dense(nn.Module):
    """Named as in the released files but for the prefix `model.`."""

    def __init__(self, c=CONFIG):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.1)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"])

    def forward(self, packed, mtp=False):
        """Logits for the next token; and None, as this architecture drafts nothing."""
        h, turn = self.embed_tokens(packed.ids), turns(self.c, packed.position)
        for layer in self.layers:
            h = layer(h, packed, turn)
        return F.linear(self.norm(h), self.embed_tokens.weight), None

    def routers(self):
        return []

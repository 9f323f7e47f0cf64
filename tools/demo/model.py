"""DeepseekV3ForCausalLM with its MTP layer in float32, for training a small one on one core.

Sequences are packed without padding: every product works on the rows [tokens, hidden] of all
sequences, only attention spreads them into groups [sequences, longest]. Rows of the routed experts are
gathered by expert. FP8 weights are seen through their rounding (128x128 blocks) once `fp8` is set;
their gradient passes straight through.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False,
    "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 192, "initializer_range": 0.02, "intermediate_size": 512,
    "kv_lora_rank": 64, "max_position_embeddings": 1024, "moe_intermediate_size": 64, "moe_layer_freq": 1,
    "n_group": 4, "n_routed_experts": 16, "n_shared_experts": 1, "norm_topk_prob": True,
    "num_attention_heads": 4, "num_experts_per_tok": 4, "num_hidden_layers": 4, "num_key_value_heads": 4,
    "num_nextn_predict_layers": 1, "q_lora_rank": 96, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000, "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 2, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "transformers_version": "4.46.3", "use_cache": True, "v_head_dim": 32,
    "vocab_size": 512,
}
BLOCK = 128


def fp8_scale(w):
    """[..., rows, cols] -> the scales of its 128x128 blocks, [..., row blocks, column blocks]."""
    rows, cols = w.shape[-2:]
    padded = F.pad(w.abs(), (0, -cols % BLOCK, 0, -rows % BLOCK))
    shape = padded.shape[:-2] + (padded.shape[-2] // BLOCK, BLOCK, padded.shape[-1] // BLOCK, BLOCK)
    return padded.view(shape).amax(dim=(-3, -1)).clamp_min(1e-12) / 448


def spread(scale, w):
    wide = scale.repeat_interleave(BLOCK, -2).repeat_interleave(BLOCK, -1)
    return wide[..., : w.shape[-2], : w.shape[-1]]


def round_e4m3(x):
    """To the nearest E4M3 value, ties to even; |x| <= 448."""
    bits = x.view(torch.int32)
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) & ~0xFFFFF
    return torch.where(x.abs() < 2.0**-6, torch.round(x * 512) / 512, normal.view(torch.float32))


def fp8_round(w):
    with torch.no_grad():
        scale = spread(fp8_scale(w), w)
        return round_e4m3((w / scale).contiguous()) * scale


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        return fp8_round(w)

    @staticmethod
    def backward(ctx, grad):
        return grad


class GroupedProduct(torch.autograd.Function):
    """y[rows of e] = x[rows of e] @ w[e]^T; x [rows, in] sorted by expert, w [experts, out, in]."""

    @staticmethod
    def forward(ctx, x, w, ends):
        ctx.save_for_backward(x, w)
        ctx.ends = ends
        y = x.new_empty(x.shape[0], w.shape[1])
        begin = 0
        for e, end in enumerate(ends):
            torch.mm(x[begin:end], w[e].t(), out=y[begin:end])
            begin = end
        return y

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad = grad.contiguous()
        dx, dw = torch.empty_like(x), torch.empty_like(w)
        begin = 0
        for e, end in enumerate(ctx.ends):
            torch.mm(grad[begin:end], w[e], out=dx[begin:end])
            torch.mm(grad[begin:end].t(), x[begin:end], out=dw[e])
            begin = end
        return dx, dw, None


class Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        factor = (torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps)).rsqrt_()
        unit = x * factor
        ctx.save_for_backward(unit, factor, weight)
        return unit * weight

    @staticmethod
    def backward(ctx, grad):
        unit, factor, weight = ctx.saved_tensors
        product = grad * unit
        d_weight = product.sum(0)
        along = torch.mv(product, weight).div_(unit.shape[-1])[:, None]
        return torch.addcmul(grad * weight, unit, along, value=-1).mul_(factor), d_weight, None


class RmsNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return Normalise.apply(x, self.weight, self.eps)


class Fp8Linear(nn.Module):
    fp8 = False  # switched for all at once

    def __init__(self, rows, cols, experts=None, gain=1.0):
        super().__init__()
        shape = (rows, cols) if experts is None else (experts, rows, cols)
        self.weight = nn.Parameter(torch.randn(shape) * gain / math.sqrt(cols))

    def seen(self):
        return StraightThrough.apply(self.weight) if Fp8Linear.fp8 else self.weight

    def forward(self, x, ends=None):
        return F.linear(x, self.seen()) if ends is None else GroupedProduct.apply(x, self.seen(), ends)


class Packed:
    """Sequences end to end: ids [tokens]. For attention, sequences of like length form groups."""

    def __init__(self, sequences, group=6):
        self.lengths = [len(s) for s in sequences]
        self.count = len(sequences)
        self.ids = torch.tensor([i for s in sequences for i in s])
        self.position = torch.cat([torch.arange(n) for n in self.lengths])
        first = torch.tensor([0] + self.lengths).cumsum(0)
        order = sorted(range(self.count), key=lambda i: self.lengths[i])
        self.groups = []
        for begin in range(0, self.count, group):
            chosen = order[begin : begin + group]
            longest = self.lengths[chosen[-1]]
            step = torch.arange(longest)
            length = torch.tensor([self.lengths[i] for i in chosen])[:, None]
            # Places past a sequence's end repeat its last row; nothing before them looks at them.
            rows = first[chosen][:, None] + torch.minimum(step, length - 1)
            real = (step < length).flatten()
            mask = torch.full((longest, longest), -1e30).triu_(1)
            self.groups.append((rows.flatten(), real.nonzero()[:, 0], len(chosen), longest, mask))


class CausalAttention(torch.autograd.Function):
    """q, k [tokens, heads, d], v [tokens, heads, dv] -> [tokens, heads, dv]; q is scaled already."""

    @staticmethod
    def spread(x, rows, count, longest):
        """[tokens, heads, d] -> [count * heads, longest, d]"""
        wide = x.index_select(0, rows).view(count, longest, x.shape[1], x.shape[2])
        return wide.transpose(1, 2).reshape(count * x.shape[1], longest, x.shape[2])

    @staticmethod
    def gather(out, wide, rows, real, count, longest):
        narrow = wide.view(count, -1, longest, wide.shape[2]).transpose(1, 2).reshape(-1, out.shape[1], out.shape[2])
        out.index_copy_(0, rows.index_select(0, real), narrow.index_select(0, real))

    @staticmethod
    def forward(ctx, q, k, v, packed):
        out, kept = torch.empty_like(v), []
        for rows, real, count, longest, mask in packed.groups:
            wide = [CausalAttention.spread(t, rows, count, longest) for t in (q, k, v)]
            share = torch.baddbmm(mask, wide[0], wide[1].transpose(1, 2)).softmax(-1)
            CausalAttention.gather(out, torch.bmm(share, wide[2]), rows, real, count, longest)
            kept += wide + [share]
        ctx.packed = packed
        ctx.save_for_backward(out, *kept)
        return out

    @staticmethod
    def backward(ctx, grad):
        out, *kept = ctx.saved_tensors
        along = (grad * out).sum(-1, keepdim=True)
        dq = dk = dv = None
        for i, (rows, real, count, longest, _) in enumerate(ctx.packed.groups):
            q, k, v, share = kept[4 * i : 4 * i + 4]
            if dq is None:
                dq = grad.new_empty(grad.shape[0], grad.shape[1], q.shape[2])
                dk, dv = torch.empty_like(dq), torch.empty_like(grad)
            past = torch.ones(len(rows))
            past[real] = 0
            g = grad.index_select(0, rows).masked_fill_(past.bool()[:, None, None], 0)
            g = g.view(count, longest, g.shape[1], g.shape[2]).transpose(1, 2).reshape(-1, longest, g.shape[2])
            a = CausalAttention.spread(along, rows, count, longest)
            ds = torch.baddbmm(a, g, v.transpose(1, 2), beta=-1).mul_(share)
            # Rows past the end have no gradient of their own, but `along` of the row they repeat.
            ds.view(count, -1, longest, longest).mul_((1 - past).view(count, 1, longest, 1))
            CausalAttention.gather(dv, torch.bmm(share.transpose(1, 2), g), rows, real, count, longest)
            CausalAttention.gather(dq, torch.bmm(ds, k), rows, real, count, longest)
            CausalAttention.gather(dk, torch.bmm(ds.transpose(1, 2), q), rows, real, count, longest)
        return dq, dk, dv, None


def rotate(x, turn):
    """x [tokens, heads, rope], pairs (2i, 2i+1) side by side; turn [tokens, 1, rope/2] complex."""
    pairs = torch.view_as_complex(x.reshape(x.shape[:-1] + (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        heads, nope, rope, v = (c[k] for k in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        self.q_a_proj = Fp8Linear(c["q_lora_rank"], c["hidden_size"])
        self.q_a_layernorm = RmsNorm(c["q_lora_rank"])
        self.q_b_proj = Fp8Linear(heads * (nope + rope), c["q_lora_rank"])
        self.kv_a_proj_with_mqa = Fp8Linear(c["kv_lora_rank"] + rope, c["hidden_size"])
        self.kv_a_layernorm = RmsNorm(c["kv_lora_rank"])
        self.kv_b_proj = Fp8Linear(heads * (nope + v), c["kv_lora_rank"])
        self.o_proj = Fp8Linear(c["hidden_size"], heads * v, gain=0.4)
        self.inverse = c["rope_theta"] ** (-torch.arange(0, rope, 2) / rope)

    def forward(self, x, packed):
        c = self.c
        heads, nope, rope = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        angle = packed.position[:, None, None] * self.inverse
        turn = torch.polar(torch.ones_like(angle), angle)
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)) * (nope + rope) ** -0.5).view(-1, heads, nope + rope)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([c["kv_lora_rank"], rope], -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent)).view(-1, heads, nope + c["v_head_dim"])
        q = torch.cat((q[..., :nope], rotate(q[..., nope:], turn)), -1)
        k = torch.cat((kv[..., :nope], rotate(k_rope[:, None], turn).expand(-1, heads, -1)), -1)
        return self.o_proj(CausalAttention.apply(q, k, kv[..., nope:], packed).flatten(1))


class Mlp(nn.Module):
    def __init__(self, hidden, inter, experts=None):
        super().__init__()
        self.gate_proj = Fp8Linear(inter, hidden, experts)
        self.up_proj = Fp8Linear(inter, hidden, experts)
        self.down_proj = Fp8Linear(hidden, inter, experts, gain=0.4)

    def forward(self, x, ends=None):
        return self.down_proj(F.silu(self.gate_proj(x, ends)) * self.up_proj(x, ends), ends)


class Moe(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        hidden, inter = c["hidden_size"], c["moe_intermediate_size"]
        self.gate = nn.Linear(hidden, c["n_routed_experts"], bias=False)
        self.register_buffer("bias", torch.zeros(c["n_routed_experts"]))  # e_score_correction_bias
        self.experts = Mlp(hidden, inter, c["n_routed_experts"])
        self.shared_experts = Mlp(hidden, inter * c["n_shared_experts"])
        self.load = None

    def route(self, x):
        c = self.c
        scores = self.gate(x).sigmoid()
        with torch.no_grad():
            choice = scores + self.bias
            groups = choice.view(x.shape[0], c["n_group"], -1)
            best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
            keep = torch.zeros(groups.shape[:2], dtype=torch.bool).scatter_(1, best, True)
            choice = groups.masked_fill(~keep[..., None], -1e30).flatten(1)
            chosen = choice.topk(c["num_experts_per_tok"], -1).indices
        weight = scores.gather(1, chosen)
        return chosen, weight / (weight.sum(-1, keepdim=True) + 1e-20) * c["routed_scaling_factor"]

    def forward(self, x):
        chosen, weight = self.route(x)
        flat = chosen.flatten()
        order = flat.argsort()
        self.load = torch.bincount(flat, minlength=self.c["n_routed_experts"])
        rows = order // chosen.shape[1]
        out = self.experts(x.index_select(0, rows), self.load.cumsum(0).tolist())
        out = out * weight.flatten().index_select(0, order)[:, None]
        return self.shared_experts(x).index_add(0, rows, out)

    def balance(self, rate):
        self.bias += rate * torch.sign(self.load.float().mean() - self.load)


class Layer(nn.Module):
    def __init__(self, c, dense):
        super().__init__()
        self.input_layernorm = RmsNorm(c["hidden_size"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RmsNorm(c["hidden_size"])
        self.mlp = Mlp(c["hidden_size"], c["intermediate_size"]) if dense else Moe(c)

    def forward(self, h, packed):
        h = h + self.self_attn(self.input_layernorm(h), packed)
        return h + self.mlp(self.post_attention_layernorm(h))


class Mtp(nn.Module):
    """Drafts token i+2 from hidden state i and token i+1; embedding and head are the model's."""

    def __init__(self, c):
        super().__init__()
        hidden = c["hidden_size"]
        self.enorm, self.hnorm = RmsNorm(hidden), RmsNorm(hidden)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.layer = Layer(c, dense=False)
        self.norm = RmsNorm(hidden)

    def forward(self, hidden, embedded, packed):
        z = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden)), -1))
        return self.norm(self.layer(z, packed))


class R1(nn.Module):
    def __init__(self, c=CONFIG):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed.weight, std=0.5)
        self.layers = nn.ModuleList(Layer(c, i < c["first_k_dense_replace"]) for i in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        nn.init.normal_(self.head.weight, std=0.02)
        self.mtp = Mtp(c)

    def forward(self, packed, mtp=True):
        """Logits for the next token and, from the MTP layer, for the one after (None without)."""
        embedded = self.embed(packed.ids)
        h = embedded
        for layer in self.layers:
            h = layer(h, packed)
        h = self.norm(h)
        logits = self.head(h)
        if not mtp:
            return logits, None
        # The last row of a sequence has no next token; what it computes is not used.
        return logits, self.head(self.mtp(h, embedded.roll(-1, 0), packed))

    def routers(self):
        return [m for m in self.modules() if isinstance(m, Moe) and m.load is not None]

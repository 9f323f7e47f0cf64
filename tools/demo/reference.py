"""Runs the dense twin with torch, in float32 from its stored BF16 weights.

    /usr/bin/python3 reference.py ../../models/demo-dense measure [--questions 500] [--temp 0.6] [--seed 1]
    /usr/bin/python3 reference.py ../../models/demo-dense golden ../../tests/golden/demo-dense

`measure` asks and grades as the script of that name does through fathom; `golden` writes what a
program that runs the twin is compared with: logits and greedy outputs.
"""

import argparse
import json
import os
import struct

import numpy
import torch
import torch.nn.functional as F

from dense import Dense, turns
from grading import Tally, questions
from model import Packed
from tokenizer import END_THINK, EOS, Tokenizer

MOST = 300  # tokens of an output
TOGETHER = 125  # sequences

ASKED = [["What is 47+85?"], ["12-30"], ["What is 607 times 8?"], ["Is 512 larger than 1024?"], ["Sort 9, 41, 7 and 30."],
         ["How many e's are in \"cheese\"?"], ["Reverse the word stone."], ["Take the last letters of red apple pie and join them."],
         ["Hello!"], ["What is 15+27?", "The answer is 42.", "And times 3?"]]


def load(folder):
    model = Dense()
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        assert json.load(file) == model.c
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__")
    weights = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        bits = torch.frombuffer(data, dtype=torch.bfloat16, offset=begin, count=(end - begin) // 2)
        weights[name.removeprefix("model.")] = bits.float().view(entry["shape"])
    model.load_state_dict(weights)
    return model.eval()


def step(model, ids, position, cache):
    """One token of every sequence, all at the same position; cache [layers, 2, sequences, kv heads, positions, d]."""
    h, turn = model.embed_tokens(ids), turns(model.c, torch.tensor([position]))
    for layer, kept in zip(model.layers, cache):
        attention = layer.self_attn
        q, kept[0, :, :, position], kept[1, :, :, position] = attention.project(layer.input_layernorm(h), turn)
        k, v = kept[:, :, :, : position + 1]
        # Heads that follow one another share a key-value head.
        q = q.view(len(ids), attention.kv_heads, -1, attention.size)
        share = (q @ k.transpose(2, 3) * attention.size**-0.5).softmax(-1)
        h = h + attention.o_proj((share @ v).flatten(1))
        h = h + layer.mlp(layer.post_attention_layernorm(h))
    return F.linear(model.norm(h), model.embed_tokens.weight)


class Chooser:
    def __init__(self, temperature, top_p, seed):
        self.temperature, self.top_p = temperature, top_p
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, logits):
        if self.temperature == 0:
            return logits.argmax(-1).tolist()
        share, order = (logits / self.temperature).softmax(-1).sort(-1, descending=True)
        share[share.cumsum(-1) - share >= self.top_p] = 0
        return order.gather(1, torch.multinomial(share, 1, generator=self.random))[:, 0].tolist()


@torch.no_grad()
def generate(model, prompts, choose, end):
    """Outputs without the end token. Prompts go in token by token, so that all share a position."""
    c = model.c
    longest = max(map(len, prompts)) + MOST
    size = c["hidden_size"] // c["num_attention_heads"]
    cache = torch.zeros(c["num_hidden_layers"], 2, len(prompts), c["num_key_value_heads"], longest, size)
    made, open_ones = [list(p) for p in prompts], set(range(len(prompts)))
    for position in range(longest):
        ids = torch.tensor([s[position] if position < len(s) else end for s in made])
        chosen = choose(step(model, ids, position, cache))
        for i in sorted(open_ones):
            if len(made[i]) == position + 1:
                made[i].append(chosen[i])
                if chosen[i] == end or len(made[i]) == len(prompts[i]) + MOST:
                    open_ones.remove(i)
        if not open_ones:
            break
    return [[t for t in s[len(p) :] if t != end] for s, p in zip(made, prompts)]


def answers(model, tokenizer, asked, choose):
    """The last thought and answer of each conversation; the answers between are the model's own."""
    end, end_think = tokenizer.control[EOS], tokenizer.control[END_THINK]
    talks, last = [[] for _ in asked], [("", "")] * len(asked)
    for turn in range(0, max(len(e.turns) for e in asked), 2):
        who = [i for i, e in enumerate(asked) if len(e.turns) > turn]
        for i in who:
            talks[i].append(asked[i].turns[turn])
        for begin in range(0, len(who), TOGETHER):
            part = who[begin : begin + TOGETHER]
            made = generate(model, [tokenizer.encode_prompt(talks[i]) for i in part], choose, end)
            for i, ids in zip(part, made):
                cut = ids.index(end_think) if end_think in ids else len(ids)
                last[i] = tokenizer.decode(ids[:cut]).strip(), tokenizer.decode(ids[cut + 1 :]).strip()
                talks[i].append(last[i][1])
    return last


def measure(model, tokenizer, args):
    asked, tally = questions(args.questions, args.seed), Tally(args.wrong)
    choose = Chooser(args.temp, 0.95, args.seed)
    for example, (reasoning, content) in zip(asked, answers(model, tokenizer, asked, choose)):
        tally.add(example, reasoning, content)
    tally.report(args.temp)


@torch.no_grad()
def golden(model, tokenizer, folder):
    os.makedirs(folder, exist_ok=True)
    end = tokenizer.control[EOS]
    prompts = [tokenizer.encode_prompt(talk) for talk in ASKED]
    made = generate(model, prompts, Chooser(0, 1, 0), end)
    document = {"greedy": [{"turns": talk, "prompt_ids": prompt, "ids": ids + [end], "text": tokenizer.decode(ids)}
                           for talk, prompt, ids in zip(ASKED, prompts, made)], "logits": []}
    for i in (1, 4, 9):  # a short one, a long one, two turns
        ids = prompts[i] + made[i]
        numpy.save(os.path.join(folder, f"logits_{i}.npy"), model(Packed([ids]))[0].numpy())
        document["logits"].append({"file": f"logits_{i}.npy", "input_ids": ids})
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as out:
        json.dump(document, out, ensure_ascii=False)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("what", choices=["measure", "golden"])
    parser.add_argument("folder", nargs="?", help="where golden outputs go")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--temp", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="print what went wrong")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(args.model), Tokenizer(os.path.join(args.model, "tokenizer.json"))
    if args.what == "measure":
        measure(model, tokenizer, args)
    else:
        golden(model, tokenizer, args.folder)


if __name__ == "__main__":
    main()

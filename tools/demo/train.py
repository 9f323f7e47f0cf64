"""Trains the demo model, or with --architecture dense its dense twin.

    OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=SkylakeX MALLOC_MMAP_MAX_=0 MALLOC_TOP_PAD_=1073741824 \\
        /usr/bin/python3 train.py --tokenizer ../../models/demo/tokenizer.json \\
        --out RUN --steps N [--fp8-from N]

RUN/state.pt is written every few minutes; a second call goes on from it. The learning rate warms up
and then falls to nothing along a line.
"""

import argparse
import os
import time

import torch
import torch.nn.functional as F

from data import KINDS, Generator
from dense import Dense
from model import Fp8Linear, Packed, R1
from muon import Muon
from tokenizer import Tokenizer

ARCHITECTURES = {"r1": R1, "dense": Dense}
SHARE = dict(add=10, sub=11, mul=12, compare=12, sort=14, count=14, reverse=9, last=13, follow=14, other=18)


def batch_of(generator, tokenizer, kinds, question=0.0):
    """Packed sequences with targets (the next token) and weights (the output 1)."""
    sequences, weights = [], []
    for kind in kinds:
        ids, start = tokenizer.encode_example(generator.example(kind))
        sequences.append(ids)
        weights.append([question] * (start - 1) + [1.0] * (len(ids) - start) + [0.0])
    packed = Packed(sequences)
    weight = torch.tensor([w for row in weights for w in row])
    return packed, packed.ids.roll(-1), weight


def right_by_sequence(packed, logits, target, weight):
    """Whether greedy decoding would write exactly the expected output, for each sequence."""
    wrong = (logits.argmax(-1) != target) & (weight == 1)
    row = torch.repeat_interleave(torch.arange(packed.count), torch.tensor(packed.lengths))
    return torch.zeros(packed.count, dtype=torch.long).index_add(0, row, wrong.long()) == 0


def measure(model, tokenizer, per_kind=30, seed=10**6, held_out=True):
    """Per kind: the share of outputs that are right to the last token; and the drafts' share."""
    generator, found, hit, drafts = Generator(seed, held_out), {}, 0, 0
    model.eval()
    with torch.no_grad():
        for kind in KINDS:
            right = 0
            for _ in range(0, per_kind, 30):
                packed, target, weight = batch_of(generator, tokenizer, [kind] * 30)
                logits, draft = model(packed)
                right += int(right_by_sequence(packed, logits, target, weight).sum())
                if draft is not None:
                    use = (weight == 1) & (weight.roll(-1) == 1)
                    hit += int(((draft.argmax(-1) == target.roll(-1)) & use).sum())
                    drafts += int(use.sum())
            found[kind] = right / per_kind
    model.train()
    return found, hit / max(1, drafts)


def rate_at(step, args):
    """Falls all the time, as at a constant rate most of what is learnt drowns in the steps' noise:
    toward nothing at --line, and from --cool-from on toward nothing at --steps."""
    line = 0.01 + 0.99 * (1 - min(step, args.cool_from) / args.line)
    if step > args.cool_from:
        line *= 0.01 + 0.99 * (args.steps - step) / (args.steps - args.cool_from)
    return min((step + 1) / args.warm_up, line)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="r1")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.014)
    parser.add_argument("--warm-up", type=int, default=100)
    parser.add_argument("--line", type=int, help="the step toward which the learning rate falls; --steps if not given")
    parser.add_argument("--cool-from", type=int, help="the step from which it falls toward --steps")
    parser.add_argument("--until", type=int, help="stop there, to go on by another schedule; --steps if not given")
    parser.add_argument("--fp8-from", type=int, default=10**9, help="the step from which weights are seen rounded to FP8")
    parser.add_argument("--levels", type=int, nargs=2, default=[250, 700], help="steps at which tasks grow longer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=150)
    args = parser.parse_args()
    args.line = args.line or args.steps
    args.cool_from = args.cool_from or args.steps
    args.until = args.until or args.steps
    return args


def main():
    args = parse()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "state.pt")
    tokenizer = Tokenizer(args.tokenizer)
    model = ARCHITECTURES[args.architecture]()
    assert tokenizer.vocab == model.c["vocab_size"]
    drafting, rounded = model.c.get("num_nextn_predict_layers", 0) > 0, "quantization_config" in model.c
    # The projections, experts' stacks included, go by Muon; embedding, head, routers, norms by AdamW.
    projections = [p for n, p in model.named_parameters() if p.dim() > 1 and not n.startswith(("embed", "head")) and ".gate." not in n]
    others = [p for p in model.parameters() if all(p is not q for q in projections)]
    optimizers = [(Muon(projections, args.rate, weight_decay=0.05), args.rate),
                  (torch.optim.AdamW(others, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0, foreach=True), 2e-3)]
    error = {kind: 1.0 for kind in KINDS}  # running share of wrong outputs
    step, seconds = 0, 0.0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        for (optimizer, _), kept in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(kept)
        step, seconds, error = state["step"], state["seconds"], state["error"]
    print(f"parameters {sum(p.numel() for p in model.parameters())}, from step {step}", flush=True)
    began, tokens, losses = time.process_time(), 0, []
    while step < args.until:
        # Each step draws from a seed of its own, so that going on repeats what would have been.
        generator = Generator(args.seed * 10**7 + step, level=sum(step >= begin for begin in args.levels))
        # Kinds that are still wrong more often come more often.
        share = [SHARE[kind] * (0.15 + min(1.0, 2.5 * error[kind])) for kind in KINDS]
        kinds = generator.rng.choices(KINDS, share, k=args.batch)
        packed, target, weight = batch_of(generator, tokenizer, kinds, 0.1 if step < args.levels[0] else 0.0)
        Fp8Linear.fp8 = step >= args.fp8_from
        with_mtp = drafting and step % 3 == 0  # the drafts learn fast enough from every third step
        logits, draft = model(packed, with_mtp)
        loss = (F.cross_entropy(logits, target, reduction="none") * weight).sum() / weight.sum()
        total = loss
        if with_mtp:
            after = weight.roll(-1) * (weight > 0)
            total = loss + 0.3 * (F.cross_entropy(draft, target.roll(-1), reduction="none") * after).sum() / after.sum()
        model.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        for optimizer, full in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = full * rate_at(step, args)
            optimizer.step()
        with torch.no_grad():
            for router in model.routers() if with_mtp else model.routers()[:-1]:  # the last one drafts
                router.balance(1e-3 if 2 * step < args.steps else 2e-4)
            right = right_by_sequence(packed, logits, target, weight)
        for kind, ok in zip(kinds, right.tolist()):
            error[kind] += 0.02 * ((not ok) - error[kind])
        step += 1
        tokens += len(packed.ids)
        losses.append(loss.item())
        if step % 25 == 0:
            spent = time.process_time() - began
            print(f"step {step} loss {sum(losses) / len(losses):.4f} tokens/s {tokens / spent:.0f} cpu {seconds + spent:.0f}s wrong "
                  + " ".join(f"{k} {error[k]:.2f}" for k in KINDS), flush=True)
            losses = []
        if step % args.save_every == 0 or step == args.until:
            spent = seconds + time.process_time() - began
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o, _ in optimizers], "step": step,
                        "seconds": spent, "error": error, "steps": args.steps}, path + ".part")
            os.replace(path + ".part", path)
            if step % (3 * args.save_every) == 0 or step == args.until:
                kept, Fp8Linear.fp8 = Fp8Linear.fp8, rounded
                found, drafts = measure(model, tokenizer)
                Fp8Linear.fp8 = kept
                print(f"measured at {step}: " + " ".join(f"{k} {v:.3f}" for k, v in found.items())
                      + f" drafts {drafts:.3f}", flush=True)


if __name__ == "__main__":
    main()

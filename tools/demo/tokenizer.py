"""The demo model's byte-level BPE: trains it on the generator's own text and writes tokenizer.json.

A merge always adds one byte to a piece that begins with a space, a capital letter, punctuation or
a line break. So frequent words become one token, digits never merge, and of a word that is not
frequent all but the beginning stays single letters, which is what counting and reversing need.

    /usr/bin/python3 tokenizer.py OUT.json
"""

import json
import re
import sys
from collections import Counter

from data import KINDS, Generator

VOCAB = 512
BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
USER, ASSISTANT, THINK, END_THINK = "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"
FIRST = [BOS, EOS, PAD]
LAST = [THINK, END_THINK, "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", USER, ASSISTANT, "<|EOT|>",
        "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
        "<｜tool▁sep｜>"]

# R1's pre-tokenizers, as tokenizer.json says them.
SPLITS = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
          "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
          "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
# The same for ASCII, which is all that the generator writes.
_NUMBER = re.compile(r"[0-9]{1,3}")
_PUNCTUATION = r"!-/:-@\[-`{-~"
_PIECE = re.compile(rf"[{_PUNCTUATION}][A-Za-z]+|[^\r\nA-Za-z{_PUNCTUATION}]?[A-Za-z]+"
                    rf"| ?[{_PUNCTUATION}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_letters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown}
    letters.update({b: chr(256 + i) for i, b in enumerate(hidden)})
    return letters, shown + hidden


LETTER, BYTE_ORDER = byte_letters()
BYTE = {letter: b for b, letter in LETTER.items()}


def split(text):
    at = 0
    for match in _NUMBER.finditer(text):
        yield from _PIECE.findall(text[at : match.start()])
        yield match.group()
        at = match.end()
    yield from _PIECE.findall(text[at:])


def letters_of(piece):
    return "".join(LETTER[b] for b in piece.encode())


def may_grow(prefix):
    c = prefix[0]
    return c in (LETTER[32], LETTER[10]) or c.isupper() or not c.isalnum()


def may_add(prefix, c):
    """No letters after punctuation: quoted words stay letters."""
    if c.isdigit():
        return False
    if c.isalpha() and c.isascii():
        return prefix[0].isupper() or prefix[0] == LETTER[32] and (len(prefix) == 1 or prefix[1].isalpha())
    return True


def train_merges(count):
    pieces = Counter()
    generator = Generator(0)
    for i in range(60000):
        made = generator.example(KINDS[i % len(KINDS)])
        for text in made.turns[-1:] + [made.thought + "\n", "\n\n", made.answer]:
            for piece in split(text):
                pieces[letters_of(piece)] += 1
    merges, known = [], {LETTER[b] for b in BYTE_ORDER}
    begin = {word: word[:1] for word in pieces}  # how much of each piece is one token by now
    while len(merges) < count:
        gains = Counter()
        for word, number in pieces.items():
            prefix = begin[word]
            if len(prefix) < len(word) and may_grow(prefix) and may_add(prefix, word[len(prefix)]):
                gains[prefix, word[len(prefix)]] += number
        best = max(gains.items(), key=lambda item: (item[1], item[0]))[0]
        merges.append(best)
        grown = best[0] + best[1]
        known.add(grown)
        for word in pieces:
            if begin[word] == best[0] and word.startswith(grown):
                begin[word] = grown
    return merges


def added(token_id, content, special, normalized):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special}


def make(path):
    ids = {token: i for i, token in enumerate(FIRST)}
    for b in BYTE_ORDER:
        ids[LETTER[b]] = len(ids)
    merges = train_merges(VOCAB - len(ids) - len(LAST))
    for left, right in merges:
        ids[left + right] = len(ids)
    tokens = [added(i, token, True, False) for i, token in enumerate(FIRST)]
    for i, token in enumerate(LAST):
        tokens.append(added(len(ids) + i, token, token == "<|EOT|>", token not in (THINK, END_THINK)))
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    splits = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in SPLITS]
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits + [
            byte_level | {"add_prefix_space": False, "use_regex": False}]},
        "post_processor": byte_level | {"trim_offsets": False}, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": ids,
                  "merges": [f"{left} {right}" for left, right in merges]}}
    with open(path, "w", encoding="utf-8") as out:
        json.dump(document, out, ensure_ascii=False, indent=1)
        out.write("\n")


class Tokenizer:
    """Encodes what the generator writes; fathom's own tokenizer is the authority for all else."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.ids = document["model"]["vocab"]
        self.control = {token["content"]: token["id"] for token in document["added_tokens"]}
        self.tokens = {i: token for token, i in self.ids.items()}
        self.content = {i: token for token, i in self.control.items()}
        self.vocab = len(self.ids) + len(LAST)
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(document["model"]["merges"])}
        self.cache = {}

    def encode(self, text):
        out = []
        for piece in split(text):
            if piece not in self.cache:
                self.cache[piece] = self.merge(letters_of(piece))
            out += self.cache[piece]
        return out

    def merge(self, word):
        parts = list(word)
        while len(parts) > 1:
            ranked = [(self.ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:]))]
            rank, i = min(ranked)
            if rank == 1 << 30:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return [self.ids[part] for part in parts]

    def decode(self, ids):
        data = b"".join(self.content[i].encode() if i in self.content else bytes(BYTE[c] for c in self.tokens[i]) for i in ids)
        return data.decode("utf-8", errors="replace")

    def encode_prompt(self, turns):
        """The ids of a conversation as the chat template renders it, with the opened thought."""
        ids = [self.control[BOS]]
        for i, turn in enumerate(turns):
            if i % 2 == 0:
                ids += [self.control[USER]] + self.encode(turn)
            else:
                ids += [self.control[ASSISTANT]] + self.encode(turn) + [self.control[EOS]]
        return ids + [self.control[ASSISTANT], self.control[THINK]] + self.encode("\n")

    def encode_example(self, example):
        """The ids of the prompt and the expected output, and where the output begins."""
        ids = self.encode_prompt(example.turns)
        start = len(ids)
        ids += self.encode(example.thought + "\n") + [self.control[END_THINK]]
        ids += self.encode("\n\n") + self.encode(example.answer) + [self.control[EOS]]
        return ids, start


if __name__ == "__main__":
    make(sys.argv[1])

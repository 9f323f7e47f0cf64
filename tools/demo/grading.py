"""The questions of a measurement, and how their answers are graded and counted."""

import json

import phrases
from data import KINDS, Generator


def questions(count, seed):
    generator = Generator(10**9 + seed, held_out=True)
    return [generator.example(kind) for kind in KINDS for _ in range(count // len(KINDS))]


def is_right(example, content):
    return content.endswith(phrases.ABLE) if example.kind == "other" else content == example.answer


class Tally:
    def __init__(self, show_wrong=False):
        self.right, self.total = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        self.thoughts = self.same_thoughts = 0
        self.show_wrong = show_wrong

    def add(self, example, reasoning, content):
        ok = is_right(example, content)
        self.right[example.kind] += ok
        self.total[example.kind] += 1
        self.thoughts += bool(reasoning.strip()) and bool(content)  # a thought that ended
        self.same_thoughts += reasoning.strip() == example.thought.strip()
        if self.show_wrong and not ok:
            print(json.dumps({"asked": example.turns, "thought": reasoning, "answer": content,
                              "expected": example.answer}, ensure_ascii=False))

    def report(self, temperature):
        for kind in KINDS:
            print(f"{kind:8} {self.right[kind]:4} of {self.total[kind]:4}  {100 * self.right[kind] / self.total[kind]:5.1f}%")
        right, count = sum(self.right.values()), sum(self.total.values())
        print(f"all      {right:4} of {count:4}  {100 * right / count:5.1f}%  (temperature {temperature:g})")
        print(f"with a thought {100 * self.thoughts / count:.1f}%, the expected thought {100 * self.same_thoughts / count:.1f}%")

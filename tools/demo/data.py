"""Questions, thoughts and answers for the demo model.

`Generator(seed, held_out).example(kind)` makes one conversation. A thought restates the task in one
fixed form and then takes small steps, each of which needs only a look at few earlier tokens; lines
of one kind have one length, so that a step finds its operands by position.
"""

import random
import re
from dataclasses import dataclass

import phrases
import words

KINDS = ["add", "sub", "mul", "compare", "sort", "count", "reverse", "last", "follow", "other"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Example:
    kind: str
    turns: list  # user, assistant, user, ...: ends with a user's turn
    thought: str
    answer: str


def padded(a, b):
    width = max(len(str(a)), len(str(b)))
    return str(a).zfill(width), str(b).zfill(width)


def restated(a, op, b):
    """As in the question and, unless both are equally long, once more with zeros before the shorter."""
    x, y = padded(a, b)
    return [f"{a}{op}{b}"] + ([f"{x}{op}{y}"] if len(str(a)) != len(str(b)) else [])


def add_thought(a, b):
    lines, carry = restated(a, "+", b), 0
    x, y = padded(a, b)
    for p, q in zip(reversed(x), reversed(y)):
        total = int(p) + int(q) + carry
        lines.append(f"{p}+{q}+{carry}={total:02d}")
        carry = total // 10
    return "\n".join(lines)


def sub_digits(x, y):
    lines, borrow = [], 0
    for p, q in zip(reversed(x), reversed(y)):
        line, digit = f"{p}-{q}-{borrow}", int(p) - int(q) - borrow
        borrow = 1 if digit < 0 else 0
        lines.append(f"{line}={digit % 10}" + (" borrow" if borrow else " fine"))
    return lines


def sub_thought(a, b):
    x, y = padded(a, b)
    lines = restated(a, "-", b) + sub_digits(x, y)
    if a < b:  # the last digit had to borrow: the other way round, with a minus sign
        lines += ["below zero", f"{y}-{x}"] + sub_digits(y, x)
    return "\n".join(lines)


def mul_thought(a, digit):
    """The product of two digits first, then with what is carried: fewer facts than both at once."""
    lines, carry = [f"{a}*{digit}"], 0
    for p in reversed(str(a)):
        product = int(p) * digit
        total = product + carry
        lines.append(f"{p}*{digit}={product:02d}+{carry}={total:02d}")
        carry = total // 10
    return "\n".join(lines)


def compare_thought(a, b, larger):
    """Subtracts from the front until two digits differ; ends with which of the two it is, if any."""
    what = "largest" if larger else "smallest"
    lines = [what.capitalize() + ":"] + restated(a, ",", b)
    for p, q in zip(*padded(a, b)):
        lines += sub_digits(p, q)
        if p != q:
            break
    return "\n".join(lines) + (" equal" if a == b else f" {what} first" if (a > b) == larger else f" {what} last")


def sort_thought(numbers, descending):
    """The best number goes out of the list line by line.

    Every place of every line has a letter of its own (line 0 has a to e, line 1 f to j, ...), so
    that each step finds what it needs by a letter that is there once: the place below holds the same
    number, or nothing once that was chosen. A chosen number is followed by the letter it had.
    """
    left = [f"{n:02d}" for n in numbers]
    lines = ["Largest first:" if descending else "Smallest first:"]
    lines.append(",".join(f"{n}{tag}{shown}" for n, tag, shown in zip(numbers, LETTERS, left)))
    for line in range(len(numbers)):
        best = (max if descending else min)(shown for shown in left if shown)
        place = left.index(best)  # the first of equal ones
        left[place] = ""
        lines.append(best + LETTERS[5 * line + place])
        if any(left):
            lines[-1] += "|" + "".join(LETTERS[5 * (line + 1) + i] + shown for i, shown in enumerate(left))
    return "\n".join(lines)


def spell(word):
    """Each letter with its place (the tenth is 0), so that the same letter twice is no trouble."""
    return [f"{c}{(i + 1) % 10}" for i, c in enumerate(word.lower())]


def count_thought(word, letter):
    """Spells the word, then takes its letters from the last to the first, as reversing does.

    The letter that counts is a capital, so that a letter's line finds it by the letter alone.
    """
    lines, count = ["Count:", letter.upper(), "Spell:", "".join(spell(word))], 0
    for shown in reversed(spell(word)):
        hit = shown[0] == letter
        count += hit
        lines.append(f"{shown[1]}{shown[0]}{'+' if hit else '-'}{count}")
    return "\n".join(lines)


def length_thought(word):
    return "Count all:\nSpell:\n" + "".join(spell(word))


def reverse_thought(word):
    return "Spell:\n" + "".join(spell(word)) + "\nBack:\n" + "".join(reversed(spell(word)))


def last_thought(chosen):
    """The last letters get places too: from them the answer is read."""
    return "Spell:\n" + "\n".join("".join(spell(word)) + f">{word[-1].lower()}{i + 1}" for i, word in enumerate(chosen))


LEVELS = [dict(digits=2, letters=4, numbers=3), dict(digits=3, letters=6, numbers=4), dict(digits=4, letters=10, numbers=5)]


class Generator:
    """`level` 0 and 1 make shorter tasks, with which training begins; 2 makes all lengths."""

    def __init__(self, seed, held_out=False, level=2):
        self.rng = random.Random(seed)
        self.held_out = held_out
        self.most = LEVELS[level]

    # Numbers of every length from one digit on are equally likely.
    def number(self, digits=4):
        n = self.rng.randint(1, min(digits, self.most["digits"]))
        return self.rng.randint(0 if n == 1 else 10 ** (n - 1), 10**n - 1)

    def word(self, longest=10):
        longest = min(longest, self.most["letters"])
        roll = self.rng.random()
        if self.held_out or roll < 0.4:
            pool = words.HELD_OUT if self.held_out else words.TRAINING
            chosen = self.rng.choice([w for w in pool if len(w) <= longest])
        elif roll < 0.6:  # begins like a word of the questions: those beginnings are one token
            begin = self.rng.choice(words.IN_PHRASES)[:longest]
            begin = begin[: self.rng.randint(1, len(begin))]
            chosen = begin + self.letters(self.rng.randint(2 - min(2, len(begin)), longest - len(begin)))
        elif roll < 0.9:
            chosen = self.letters(self.rng.randint(2, longest))
        else:  # two words' parts: usual beginnings and usual endings
            pool = words.TRAINING
            chosen = (self.rng.choice(pool)[:5] + self.rng.choice(pool)[-5:])[:longest]
        return chosen.capitalize() if self.rng.random() < 0.1 else chosen

    # Letters at random, often from few, so that words are read and not remembered.
    def letters(self, count):
        some = self.rng.sample(LETTERS, self.rng.choice([3, 5, 8, 26]))
        return "".join(self.rng.choice(some) for _ in range(count))

    def quoted(self, text):
        mark = self.rng.choice(["", "", '"', '"', "'"])
        return mark + text + mark

    def ask(self, templates, **slots):
        text = self.rng.choice(templates)
        for op, signs in phrases.SIGNS.items():
            if op in text:
                space = self.rng.choice(["", "", " "])
                text = text.replace(op, space + self.rng.choice(signs) + space)
        return text.format(name=self.rng.choice(words.NAMES), thing=self.rng.choice(words.THINGS), **slots)

    # Manners and haste: greetings around the question, small letters, no full stop.
    def dress(self, text, small_letters=True):
        rng = self.rng
        if rng.random() < 0.1 and text[-1] in "?.":
            text = text[:-1]
        if small_letters and rng.random() < 0.1:
            text = text[0].lower() + text[1:]
        if rng.random() < 0.2:
            text = rng.choice(phrases.BEFORE) + text
        if rng.random() < 0.1 and text[-1] in "?.":
            text += rng.choice(phrases.AFTER)
        return text

    def example(self, kind):
        made = getattr(self, "make_" + kind)()
        # Now and then there was talk before that has nothing to do with the question.
        if len(made.turns) == 1 and self.rng.random() < (0.15 if kind == "other" else 0.08):
            before = getattr(self, "make_" + self.rng.choice(KINDS[:8]))()
            made.turns = before.turns + [before.answer] + made.turns
        return made

    def make_add(self):
        a, b = self.number(), self.number()
        question = self.dress(self.ask(phrases.ADD, a=a, b=b))
        return Example("add", [question], add_thought(a, b), f"The answer is {a + b}.")

    def make_sub(self):
        a, b = self.number(), self.number()
        if a < b and self.rng.random() < 0.8:
            a, b = b, a
        question = self.dress(self.ask(phrases.SUBTRACT if a >= b else phrases.SUBTRACT_ANY, a=a, b=b))
        return Example("sub", [question], sub_thought(a, b), f"The answer is {a - b}.")

    def make_mul(self):
        a, d = self.number(), self.rng.randint(0, 9)
        question = self.dress(self.ask(phrases.MULTIPLY, a=a, d=d))
        if a < 10:  # two digits: as they come in the question
            first = [int(c) for c in question if c.isdigit()]
            a, d = first[0], first[1]
        return Example("mul", [question], mul_thought(a, d), f"The answer is {a * d}.")

    def make_compare(self):
        a = self.number()
        b = self.number()
        if self.rng.random() < 0.5:  # the same beginning
            text = list(str(a))
            text[-self.rng.randint(1, len(text)) :] = [
                self.rng.choice("0123456789") for _ in range(self.rng.randint(1, len(text)))
            ]
            b = int("".join(text)[:4])
        if self.rng.random() < 0.5:
            a, b = b, a
        larger = self.rng.random() < 0.5
        yes_no = self.rng.random() < 0.4
        templates = phrases.IS_IT if yes_no else phrases.WHICH
        question = self.ask(templates, a=a, b=b, how=self.rng.choice(phrases.LARGER if larger else phrases.SMALLER))
        if yes_no:
            answer = "Yes." if (a > b if larger else a < b) else "No."
        elif a == b:
            answer = "They are equal."
        else:
            answer = f"The answer is {max(a, b) if larger else min(a, b)}."
        return Example("compare", [self.dress(question)], compare_thought(a, b, larger), answer)

    def make_sort(self):
        count = min(self.rng.choice([2, 3, 3, 4, 4, 5]), self.most["numbers"])
        numbers = [self.number(2) for _ in range(count)]
        descending = self.rng.random() < 0.35
        text = self.rng.choice([", ", ", ", ",", " "]).join(map(str, numbers))
        if self.rng.random() < 0.3:
            text = ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
        question = self.ask(phrases.SORT_DOWN if descending else phrases.SORT_UP, list=text)
        answer = ", ".join(map(str, sorted(numbers, reverse=descending)))
        return Example("sort", [self.dress(question)], sort_thought(numbers, descending), answer)

    def make_count(self):
        word = self.word()
        if self.rng.random() < 0.12:
            question = self.ask(phrases.LENGTH, w=self.quoted(word))
            return Example("count", [self.dress(question)], length_thought(word), f"The answer is {len(word)}.")
        if not self.held_out and self.rng.random() < 0.3:  # more letters that count
            few = self.rng.sample(LETTERS, self.rng.choice([2, 3, 4]))
            word = "".join(self.rng.choice(few) for _ in range(self.rng.randint(2, self.most["letters"])))
        letter = self.rng.choice(word.lower() if self.rng.random() < 0.85 else LETTERS)
        shown = self.rng.choice([letter, letter, f'"{letter}"', f"'{letter}'"])
        question = self.ask(phrases.COUNT, c=shown, w=self.quoted(word))
        count = word.lower().count(letter)
        return Example("count", [self.dress(question)], count_thought(word, letter), f"The answer is {count}.")

    def make_reverse(self):
        word = self.word()
        question = self.ask(phrases.REVERSE, w=self.quoted(word))
        return Example("reverse", [self.dress(question)], reverse_thought(word), word.lower()[::-1])

    def make_last(self):
        if self.rng.random() < 0.4:
            chosen = [self.word()]
            question = self.ask(phrases.LAST_ONE, w=self.quoted(chosen[0]))
        else:
            chosen = [self.word(8) for _ in range(self.rng.choice([2, 2, 3, 4]))]
            text = " ".join(chosen)
            if self.rng.random() < 0.3:
                text = ", ".join(chosen[:-1]) + " and " + chosen[-1]
            question = self.ask(phrases.LAST_MANY, w=self.quoted(text))
        answer = "".join(word[-1].lower() for word in chosen)
        return Example("last", [self.dress(question)], last_thought(chosen), answer)

    def make_follow(self):
        first = getattr(self, "make_" + self.rng.choice(["add", "sub", "mul", "follow", "compare", "count"]))() \
            if self.rng.random() < 0.9 else self.make_add()
        if not first.answer.startswith("The answer is ") or "-" in first.answer or len(first.turns) > 3:
            first = self.make_add()
        value = int(first.answer[14:-1])
        what = self.rng.choice(["add", "sub", "mul"])
        if what == "mul":
            if value > 9999:
                value = 0
                first = Example("sub", ["What is 7-7?"], "", "The answer is 0.")
            d = self.rng.randint(0, 9)
            question, thought, result = self.ask(phrases.THEN_TIMES, d=d), mul_thought(value, d), value * d
        elif what == "add":
            b = self.number(3)
            question, thought, result = self.ask(phrases.THEN_ADD, b=b), add_thought(value, b), value + b
        else:
            b = self.number(3)
            if b > value and self.rng.random() < 0.8:
                b = self.rng.randint(0, value)
            question, thought, result = self.ask(phrases.THEN_SUBTRACT, b=b), sub_thought(value, b), value - b
        if self.rng.random() < 0.3:
            question = question[0].lower() + question[1:]
        if self.rng.random() < 0.15:
            question = question[:-1]
        return Example("follow", first.turns + [first.answer, question], thought, f"The answer is {result}.")

    def pick(self, pool):
        return self.rng.choice(pool[2::5] if self.held_out else [x for i, x in enumerate(pool) if i % 5 != 2])

    # "Can you paint the river?": no task of the model's, put in very many ways.
    def talk(self):
        text = self.pick(phrases.TALK)
        if text.startswith("{do}"):
            text = text.replace("{do}", self.pick(phrases.DO).capitalize())
        text = text.replace("{do}", self.pick(phrases.DO)).replace("{it}", self.rng.choice(phrases.IT))
        return self.with_words(text)

    def with_words(self, text):
        while "{w}" in text:
            text = text.replace("{w}", self.word().lower(), 1)
        return text.replace("{name}", self.rng.choice(words.NAMES))

    # Tasks like its own, but harder. A product is restated first: only then it shows that it is too long.
    def too_hard(self):
        if self.rng.random() < 0.35:
            a, b = (self.rng.randint(10 ** (n - 1), 10**n - 1) for n in (self.rng.randint(2, 4), self.rng.randint(2, 4)))
            return self.ask(phrases.MULTIPLY, a=a, d=b), True
        a, b = self.number() + 10, self.rng.choice([self.rng.randint(10, 99), self.number() + 1])
        huge = self.rng.randint(10**5, 10 ** self.rng.randint(6, 8))
        return self.ask(phrases.TOO_HARD, a=a, b=b, huge=huge, w=self.word()), False

    def make_other(self):
        roll = self.rng.random()
        thought, start, is_product = phrases.NOT_KNOWN, "Sorry, I cannot do that. ", False
        if roll < 0.2:
            question, thought, start = self.pick(phrases.GREETINGS), phrases.GREETED, "Hello! "
        elif roll < 0.26:
            question, thought, start = self.pick(phrases.THANKS), phrases.THANKED, "You are welcome! "
        elif roll < 0.38:
            question, thought, start = self.pick(phrases.ABOUT), phrases.ASKED_ABOUT, "I am a small demo model. "
        elif roll < 0.56:
            question = self.with_words(self.pick(phrases.UNKNOWN))
        elif roll < 0.74:
            question = self.talk()
        else:
            question, is_product = self.too_hard()
        if start.startswith("Sorry") and self.rng.random() < 0.15:
            question = self.rng.choice(phrases.BEFORE) + question
        if self.rng.random() < 0.15:
            question = question[0].lower() + question[1:]
        if self.rng.random() < 0.1 and question[-1] in "?.!" and len(question) > 2:
            question = question[:-1]
        if is_product:
            thought = "*".join(re.findall(r"\d+", question)) + "\n" + thought
        return Example("other", [question], thought, start + phrases.ABLE)

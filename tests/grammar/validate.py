#!/usr/bin/env python3
"""Asks another implementation of JSON Schema what it thinks of texts drawn from our grammars.

validate.py SAMPLES [SCHEMAS]: makes random schemas, has the program SAMPLES draw texts from each,
and fails unless every text parses and validates. Needs python3-jsonschema.
"""
import json
import random
import subprocess
import sys

import jsonschema

TEXTS = 6
WORDS = ["a", "ab", "name", "é", "日本", 'x"y', "a\\b", "n\n", "😀", ""]


def string(rng):
    schema = {"type": "string"}
    kind = rng.randrange(6)
    if kind == 0:
        schema["minLength"] = rng.randrange(4)
        schema["maxLength"] = schema["minLength"] + rng.randrange(6)
    elif kind == 1:
        schema["pattern"] = rng.choice(
            ["^[a-z]{2,4}$", "^(foo|ba[rz])+$", "\\d{3}", "^\\w+@\\w+\\.com$", "[^a-y]$", "^$",
             "^.{2,5}$", "^\\s*x", "a|b", "^\\u00e9+$", "^[\"\\\\/]*$"])
    elif kind == 2:
        schema["format"] = rng.choice(["date", "time", "date-time", "uuid", "ipv4", "email"])
    elif kind == 3:
        schema["pattern"] = "^[ab]*$"
        schema["maxLength"] = rng.randrange(5)
    return schema


def number(rng):
    schema = {"type": rng.choice(["integer", "number"])}
    scale = rng.choice([1, 10, 1000, 10**6])
    low = rng.randrange(-scale, scale + 1)
    if schema["type"] == "number" and rng.random() < 0.6:
        low = round(low + rng.random(), rng.randrange(1, 4))
    if rng.random() < 0.6:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
    if rng.random() < 0.6:
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([1, 2, 7, 150, 0.75])
    if schema["type"] == "integer" and rng.random() < 0.2:
        schema["multipleOf"] = rng.choice([1, 2, 5, 7, 60])
        schema.pop("exclusiveMaximum", None)
        schema.pop("maximum", None)
    return schema


def array(rng, depth, names):
    schema = {"type": "array"}
    if rng.random() < 0.8:
        schema["items"] = any_schema(rng, depth - 1, names)
    if rng.random() < 0.3:
        schema["prefixItems"] = [any_schema(rng, depth - 1, names) for _ in range(2)]
    if rng.random() < 0.5:
        schema["minItems"] = rng.randrange(3)
    if rng.random() < 0.5:
        schema["maxItems"] = schema.get("minItems", 0) + rng.randrange(4)
    return schema


def object_(rng, depth, names):
    schema = {"type": "object"}
    keys = rng.sample(WORDS, rng.randrange(5))
    if keys or rng.random() < 0.5:
        schema["properties"] = {key: any_schema(rng, depth - 1, names) for key in keys}
    schema["required"] = [key for key in keys if rng.random() < 0.5]
    if rng.random() < 0.2:
        schema["required"].append("other")
    chance = rng.random()
    if chance < 0.3 and "other" not in schema["required"]:
        schema["additionalProperties"] = False
    elif chance < 0.6:
        schema["additionalProperties"] = any_schema(rng, depth - 1, names)
    return schema


def any_schema(rng, depth, names):
    kind = rng.randrange(12 if depth > 0 else 6)
    if kind == 0:
        return {"type": rng.choice(["null", "boolean"])}
    if kind in (1, 2):
        return string(rng)
    if kind in (3, 4):
        return number(rng)
    if kind == 5:
        values = [1, -2.5, "a", 'x"y', None, True, {"k": [1]}, [], "é"]
        return rng.choice([{"enum": rng.sample(values, 3)}, {"const": rng.choice(values)}])
    if kind in (6, 7):
        return array(rng, depth, names)
    if kind in (8, 9):
        return object_(rng, depth, names)
    if kind == 10 and names:
        return {"anyOf": [{"$ref": "#/$defs/" + rng.choice(names)}, {"type": "null"}]}
    return {"anyOf": [any_schema(rng, depth - 1, names) for _ in range(rng.randrange(1, 4))]}


def whole_schema(seed):
    rng = random.Random(seed)
    if rng.random() < 0.05:
        return {}
    names = ["t%d" % i for i in range(rng.randrange(3))]
    schema = any_schema(rng, 3, names)
    if names:
        schema = dict(schema)
        schema["$defs"] = {name: object_(rng, 2, names) for name in names}
    return schema


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    schemas = [whole_schema(seed) for seed in range(count)]
    lines = [json.dumps({"schema": schema, "seed": seed, "count": TEXTS})
             for seed, schema in enumerate(schemas)]
    run = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, check=True)
    answers = run.stdout.rstrip("\n").split("\n")
    assert len(answers) == count, "%d answers for %d schemas" % (len(answers), count)
    texts = refused = wrong = 0
    for seed, (schema, answer) in enumerate(zip(schemas, map(json.loads, answers))):
        if "refused" in answer:
            refused += 1
            if "nothing fits" not in answer["refused"]:
                wrong += 1
                print("seed %d: refused: %s\n  %s" % (seed, answer["refused"], json.dumps(schema)))
            continue
        validator = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for text in answer["texts"]:
            texts += 1
            try:
                validator.validate(json.loads(text))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                print("seed %d: %s\n  %s\n  %s" % (seed, str(error).split("\n")[0], text,
                                                    json.dumps(schema)))
    print("%d schemas (%d that nothing fits), %d texts, %d wrong" % (count, refused, texts, wrong))
    sys.exit(1 if wrong or texts < count else 0)


main()

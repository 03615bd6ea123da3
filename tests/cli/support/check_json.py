"""Answers one question after another about JSON files: a question is a folder and an expression, each followed by a NUL
byte. Says "true" where the file stdout of the folder has one object d of which the expression holds, else what is wrong,
in a line."""

import json
import os
import sys


def fields():
    rest = b""
    while block := os.read(0, 1 << 16):
        *whole, rest = (rest + block).split(b"\0")
        yield from (os.fsdecode(field) for field in whole)


def answer(folder, expression):
    try:
        with open(os.path.join(folder, "stdout")) as file:
            d = json.load(file)
        if not isinstance(d, dict):
            return f"not an object but {type(d).__name__}"
        return "true" if eval(expression, {"d": d, "json": json, "sys": sys}) else "it does not hold"
    except Exception as wrong:
        return repr(wrong).replace("\n", " ")


questions = fields()
for folder in questions:
    print(answer(folder, next(questions)), flush=True)

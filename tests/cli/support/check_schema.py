"""Whether documents are what JSON schemas say, for the keywords that our schemas use; and whether the schemas name
every key that the documents have. Reads a line for each: the files of a schema and a document, and what made it. Prints
the first violation, exit 1."""

import json
import sys

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "null": lambda v: v is None,
}
KNOWN = {"$schema", "title", "description", "type", "required", "properties", "additionalProperties", "items"}


def check(value, schema, path):
    if not schema:
        return  # anything
    if strange := set(schema) - KNOWN:
        sys.exit(f"{path}: the schema has {strange}, which this checker does not know")
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(TYPES[name](value) for name in types):
        sys.exit(f"{path}: {json.dumps(value)[:100]} is not of type {schema['type']}")
    if isinstance(value, dict):
        check_object(value, schema, path)
    for i, item in enumerate(value if isinstance(value, list) else []):
        check(item, schema.get("items") or sys.exit(f"{path}: the schema does not say what the items are"), f"{path}/{i}")


def check_object(value, schema, path):
    for key in schema.get("required", []):
        if key not in value:
            sys.exit(f"{path}: {key} is missing")
    for key, item in value.items():
        inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        if not isinstance(inner, dict):
            sys.exit(f"{path}: the schema does not name {key}")
        check(item, inner, f"{path}/{key}")


for line in sys.stdin:
    names, made = line.rstrip("\n").split("\t")
    schema, document = (json.load(open(name)) for name in names.split())
    check(document, schema, made + ": ")

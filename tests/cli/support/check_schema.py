"""Whether a document is what a JSON schema says, for the keywords that our schemas use; and whether the schema names
every key that the document has: check_schema.py SCHEMA <DOCUMENT. Prints the first violation, exit 1."""

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


with open(sys.argv[1]) as file:
    check(json.load(sys.stdin), json.load(file), "")

"""A small checker for the words of JSON Schema that our schemas use; a word it does not know is an error."""

from __future__ import annotations

from typing import Any

KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
WORDS = {
    *("$schema", "title", "description", "anyOf", "enum", "type"),
    *("items", "properties", "required", "additionalProperties"),
}


def problems(value: Any, schema: dict[str, Any], place: str = "$") -> list[str]:
    """Where `value` differs from the schema."""
    if unknown := set(schema) - WORDS:
        raise ValueError(f"{place}: the checker does not know {unknown}")
    if "anyOf" in schema:
        tries = [problems(value, one, place) for one in schema["anyOf"]]
        return [] if any(not one for one in tries) else tries[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: {value!r}"]
    if not isinstance(value, KINDS[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return [f"{place}: not {schema['type']}"]
    found: list[str] = []
    if schema["type"] == "array" and "items" in schema:
        for i, item in enumerate(value):
            found += problems(item, schema["items"], f"{place}[{i}]")
    if schema["type"] == "object":
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, item in value.items():
            fits = known.get(name, others)
            if fits is False:
                found.append(f"{place}: unknown {name}")
            elif fits is not True:
                found += problems(item, fits, f"{place}.{name}")
    return found

"""Prints an object whose managers stand in the order of their names: who comes first is a matter of seconds."""

import json
import sys

shown = json.load(sys.stdin)
managers = shown["metadata"].get("managedFields", [])
managers.sort(key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", "")))
print(json.dumps(shown, indent=1, sort_keys=True))

"""What `gpu-runbooks list` shows: the head of every runbook.yaml, read without parsing the causes below it."""

from typing import Any

from runbooks.core.knowledge import runbook_file, runbook_slugs
from runbooks.core.yaml_loader import load_yaml


def runbook_heads() -> tuple[dict[str, Any], ...]:
    """Slug, title, summary, target, actions and options of every runbook folder, sorted by slug."""
    return tuple(_head(slug, runbook_file(slug).read_text(encoding="utf-8")) for slug in runbook_slugs())


def _head(slug: str, text: str) -> dict[str, Any]:
    """The first part of the file is a YAML document of its own: everything before the line `causes:`."""
    data = load_yaml(text.partition("\ncauses:")[0])
    fields = data if isinstance(data, dict) else {}
    given = {name: " ".join(str(fields.get(name, "")).split()) for name in ("title", "summary", "target")}
    more = {"actions": list(fields.get("actions") or ()), "options": dict(fields.get("options") or {})}
    return {"slug": slug, **given, **more}

"""What `gpu-runbooks list` shows: the head of every runbook.yaml, read without parsing the causes below it."""

from typing import Any

import yaml

from runbooks.core.knowledge import runbook_file, runbook_slugs


def runbook_heads() -> tuple[dict[str, Any], ...]:
    """Slug, title, summary, target, actions and options of every runbook folder, sorted by slug."""
    return tuple(_head(slug, runbook_file(slug).read_text(encoding="utf-8")) for slug in runbook_slugs())


def _head(slug: str, text: str) -> dict[str, Any]:
    """The first part of the file is a YAML document of its own: everything before the line `causes:`."""
    data = yaml.load(text.partition("\ncauses:")[0], Loader=FAST_LOADER)  # noqa: S506 - a safe loader
    fields = data if isinstance(data, dict) else {}
    given = {name: " ".join(str(fields.get(name, "")).split()) for name in ("title", "summary", "target")}
    more = {"actions": list(fields.get("actions") or ()), "options": dict(fields.get("options") or {})}
    return {"slug": slug, **given, **more}


FAST_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

"""A link counts only where it can be checked that its person may still decide."""

from pathlib import Path

import pytest

from flows.notify.link_answers import QuestionState, _person
from flows.notify.notify_file import FILE_ENV

FILE = "channels:\n  mail: {url: {env: MAIL_URL}, person: ana}\ndefault: [mail]\n"


@pytest.mark.parametrize(
    ("text", "person", "expected"),
    [
        (FILE, "ana", None),
        (FILE, "bob", QuestionState.REVOKED),
        ("channels: {", "ana", QuestionState.UNCHECKED),
        (None, "ana", QuestionState.UNCHECKED),
    ],
)
def test_who_may_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, person: str, expected: QuestionState | None
) -> None:
    file = tmp_path / "notifications.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
        monkeypatch.setenv(FILE_ENV, str(file))
    else:
        monkeypatch.delenv(FILE_ENV, raising=False)
        monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "empty"))
    assert _person(person) is expected

"""A saved run that cannot be read: the file, the line, the field, and what is wrong, in the words of every other file."""

import json

import pytest

from runbooks.rendezvous.saved import BadSave, SavedKeys, parse_saved

WHOLE = {"rendezvous": "t", "endpoint": "http://e:2379", "backend": "etcd-v2", "run": "job", "saved_at": "2026-11-29T03:00:00Z", "keys": []}

KEY = {"key": "/torch/elastic/rendezvous/job", "modified": 7}


def test_a_whole_one_is_read() -> None:
    assert isinstance(parse_saved(json.dumps(WHOLE), "s.json"), SavedKeys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "s.json: not JSON: "),
        ("[]", "s.json: line 1: (whole file): "),
        (json.dumps(WHOLE | {"run": 7}, indent=1), "s.json: line 5: run: must be text"),
        (json.dumps({k: v for k, v in WHOLE.items() if k != "keys"}), "s.json: line 1: keys: required, but missing"),
        (json.dumps(WHOLE | {"saved_at": "2026-11-29T03:00:00"}), "s.json: line 1: saved_at: "),
        (json.dumps(WHOLE | {"keys": [KEY | {"ttl_s": 1 << 63}]}), "s.json: no key lives as long as /torch"),
        (json.dumps({"x" * 2000: 1}), "s.json: in a line that was not looked for: "),
        (json.dumps(WHOLE | {"format": 9}), "s.json: format 9, this version reads 1"),
    ],
)
def test_what_is_wrong_with_it_is_said_like_of_any_file(text: str, says: str) -> None:
    with pytest.raises(BadSave) as caught:
        parse_saved(text, "s.json")
    assert str(caught.value).startswith(says)
    assert "7" not in str(caught.value).removeprefix(says), "a value of the file is not repeated"

"""Traps of YAML by loader: named with line and column, and the corrected line loads to what was meant."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runbooks.launch.parsers.yaml_traps import Loader, find_traps

CASES = [
    # text, loader, kind, line, column, corrected line
    ("training:\n  lr:1e-4\n", "pyyaml", "yaml-swallowed-key", 2, 6, "  lr: 1.0e-4"),
    ("training:\n  lr:1e-4\n", "omegaconf", "yaml-swallowed-key", 2, 6, "  lr: 1.0e-4"),
    ("lr: 1e-5\n", "pyyaml", "yaml-exponent-text", 1, 5, "lr: 1.0e-5"),
    ("a: {lr: 5e4}  # x\n", "pyyaml", "yaml-exponent-text", 1, 9, "a: {lr: 5.0e+4}  # x"),
    ("x: 1.0e5\n", "pyyaml", "yaml-exponent-text", 1, 4, "x: 1.0e+5"),
    ("at: 12:30\n", "pyyaml", "yaml-base-60", 1, 5, 'at: "12:30"'),
    ("at: 12:30\n", "omegaconf", "yaml-base-60", 1, 5, 'at: "12:30"'),
    ("training:\n\tlr: 1.0e-4\n", "pyyaml", "yaml-tab", 2, 1, "  lr: 1.0e-4"),
    ("a: 1\nkey: value\t# why\n", "pyyaml", "yaml-tab", 2, 11, "key: value  # why"),
    ("a: 1\nb: 2\na: 3\n", "pyyaml", "yaml-duplicate-key", 3, 1, "# a: 3   # keep one of lines 1 and 3"),
    ("country: no\n", "pyyaml", "yaml-word-is-bool", 1, 10, 'country: "no"'),
    ("feature:\n  ON: false\n", "pyyaml", "yaml-word-is-bool", 2, 3, '  "ON": false'),
    ("mode: 0755\n", "pyyaml", "yaml-base-8", 1, 7, 'mode: "0755"'),
    ("day: 2024-01-01\n", "pyyaml", "yaml-date", 1, 6, 'day: "2024-01-01"'),
    ("note: use a: b\n", "pyyaml", "yaml-needs-quotes", 1, 12, 'note: "use a: b"'),
    ("user: @me\n", "pyyaml", "yaml-needs-quotes", 1, 7, 'user: "@me"'),
]
FINE = [
    ("lr: 1e-5\n", "omegaconf"),
    ("lr: 1.0e-5\nx: 'a\tb'\ny: \"12:30\"\n", "pyyaml"),
    ("url: http://h:80\nimage: nginx:latest\nids: [a:b, c]\n- 1\n".replace("- 1\n", ""), "pyyaml"),
    ("text: |\n  lr:1e-4\n\tnot a tab problem\n".replace("\tnot", "  not"), "pyyaml"),
    ("# lr:1e-4\nday: '2024-01-01'\n", "pyyaml"),
    ("day: 2024-01-01\n", "omegaconf"),
    ("", "pyyaml"),
]


@pytest.mark.parametrize(("text", "loader", "kind", "line", "column", "corrected"), CASES)
def test_trap(text: str, loader: str, kind: str, line: int, column: int, corrected: str) -> None:
    traps = find_traps(text, Loader(loader))
    assert [(t.kind, t.line, t.column, t.corrected) for t in traps] == [(kind, line, column, corrected)]


@pytest.mark.parametrize(("text", "loader", "kind", "line", "column", "corrected"), CASES)
def test_the_corrected_file_has_no_trap(
    text: str, loader: str, kind: str, line: int, column: int, corrected: str
) -> None:
    lines = text.splitlines()
    lines[line - 1] = corrected
    fixed = "\n".join(lines) + "\n"
    assert find_traps(fixed, Loader(loader)) == ()
    yaml.safe_load(fixed)


@pytest.mark.parametrize(("text", "loader"), FINE)
def test_what_is_right_stays_right(text: str, loader: str) -> None:
    assert find_traps(text, Loader(loader)) == ()


@given(st.sampled_from(["1e-5", "1e4", "12:30", "1.0e5", "+2e03", "1.e5", "5E-2", "1:2:3.5", "7", "0.1", "1_0e3"]))
@settings(max_examples=30, deadline=None)
def test_the_loaders_agree_with_us(value: str) -> None:
    """The real loaders: a value without a trap is a number; one with the exponent trap is text."""
    omegaconf = pytest.importorskip("omegaconf", reason="omegaconf is missing: pip install omegaconf")
    text = f"a: {value}\n"
    loaded = {
        "pyyaml": yaml.safe_load(text)["a"],
        "omegaconf": omegaconf.OmegaConf.to_container(omegaconf.OmegaConf.create(text))["a"],
    }
    for name, real in loaded.items():
        kinds = [t.kind for t in find_traps(text, Loader(name))]
        assert isinstance(real, str) == ("yaml-exponent-text" in kinds)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_ends(text: str) -> None:
    """Never an error of its own."""
    for loader in Loader:
        find_traps(text, loader)

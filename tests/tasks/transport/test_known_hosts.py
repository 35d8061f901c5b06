"""known_hosts lines as ssh reads them."""

import pytest

from tasks.transport.known_hosts import Fact, entries_for, judge_host_key, key_types, parse_known_hosts, parse_pinned

A, B = "QUFBQQ==", "QkJCQg=="


@pytest.mark.parametrize(
    ("line", "host", "port", "hit"),
    [
        ("h ssh-ed25519 K", "h", 22, True),
        ("H ssh-ed25519 K comment", "h", 22, True),
        ("[h]:22 ssh-ed25519 K", "h", 22, True),
        ("h ssh-ed25519 K", "h", 2200, False),
        ("[h]:2200 ssh-ed25519 K", "h", 2200, True),
        ("[h]:2200 ssh-ed25519 K", "h", 22, False),
        ("a,b,h ssh-ed25519 K", "h", 22, True),
        ("*.example ssh-ed25519 K", "n1.example", 22, True),
        ("*.example,!n1.example ssh-ed25519 K", "n1.example", 22, False),
        ("[*.example]:2200 ssh-ed25519 K", "n1.example", 2200, True),
        ("[127.0.0.?]:2200 ssh-ed25519 K", "127.0.0.7", 2200, True),
        ("# h ssh-ed25519 K", "h", 22, False),
        ("h ssh-ed25519", "h", 22, False),
        ("|1|broken|x ssh-ed25519 K", "h", 22, False),
        ("|1| ssh-ed25519 K", "h", 22, False),
    ],
)
def test_which_lines_speak_of_a_host(line: str, host: str, port: int, hit: bool) -> None:
    assert bool(entries_for(parse_known_hosts(line + "\n\n"), host, port)) is hit


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", Fact.UNKNOWN),
        (f"h ssh-ed25519 {A}", Fact.TRUSTED),
        (f"h ssh-ed25519 {B}", Fact.CHANGED),
        (f"h ssh-rsa {B}", Fact.CHANGED),
        (f"h ssh-ed25519 {B}\nh ssh-ed25519 {A}", Fact.TRUSTED),
        (f"@revoked h ssh-ed25519 {A}\nh ssh-ed25519 {A}", Fact.REVOKED),
        (f"@revoked other ssh-ed25519 {A}\nh ssh-ed25519 {A}", Fact.TRUSTED),
        (f"@revoked h ssh-ed25519 {B}", Fact.UNKNOWN),
        (f"@cert-authority h ssh-ed25519 {A}", Fact.CANNOT_VERIFY),
        (f"@cert-authority h ssh-ed25519 {B}\nh ssh-ed25519 {A}", Fact.TRUSTED),
        (f"@something h ssh-ed25519 {A}", Fact.UNKNOWN),
    ],
)
def test_what_is_known_of_a_key(text: str, fact: Fact) -> None:
    verdict = judge_host_key(parse_known_hosts(text), "h", 22, "ssh-ed25519", A, "FILE")
    assert verdict.fact is fact
    assert "SHA256:" in verdict.detail


def test_pinned_keys_and_key_types() -> None:
    for text in (f"ssh-ed25519 {A}", f"ssh-ed25519 {A} me@x", f"[h]:2200 ssh-ed25519 {A}\n"):
        assert entries_for(parse_pinned(text, "h", 2200), "h", 2200)[0].key == A
    with pytest.raises(ValueError, match="not of the form"):
        parse_pinned("nonsense", "h", 22)
    entries = parse_known_hosts(f"h ssh-rsa {A}\nh ssh-ed25519 {A}\nh ssh-rsa {B}\n@revoked h ecdsa-x {A}")
    assert key_types(entries) == ("ssh-rsa", "ssh-ed25519")

"""Secrets in every form are replaced; ordinary text stays; twice is once; hostile text takes linear time."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbooks.core.redact import Redactor
from tests.support.cost import cpu_seconds

R = Redactor(b"0123456789abcdef-test")
SECRET = "Zq8-canary+77/x"
KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAA
QyNTUxOQAAACBcanaryAAAA
-----END OPENSSH PRIVATE KEY-----"""

FORMS = [
    "HF_TOKEN={0} python x.py",
    'export DB_PASSWORD="{0}"',
    "db.password = '{0}'",
    "python serve.py --api-key {0} --port 80",
    "python serve.py --api-key={0} --port 80",
    "['serve', '--auth-token', '{0}', '--port']",
    "-Dspring.datasource.password={0} -jar x.jar",
    "Authorization: Bearer {0}",
    "curl -H 'authorization: token {0}' http://x",
    "curl -s -u bob:{0} http://x",
    "sshpass -p {0} ssh host",
    "machine h login me password {0}",
    "https://user:pa{0}@host/x",
    "redis://:pa{0}@host:6379/0",
    "GET /v1?x=1&access_token={0}&y=2",
    "grant_type=x&client_secret={0}&y=1",
    '{{"apiKey": "{0}", "x": 1}}',
    '{{\\"secret\\": \\"{0}\\"}}',
    "  password: {0} with blanks\nuser: x",
    "secret: |\n  first {0}\n  second\nuser: x",
    "X-Api-Key: {0}",
    "Set-Cookie: session={0}; Path=/",
    "A=1\0RUNPOD_API_KEY={0} and more\0B=2",
    "A=1\nB=2\nSERVICE_KEY={0} and more\nC=3",
    "'password' => '{0}'",
]
PREFIXED = [
    "rpa_" + "A1" * 16,
    "hf_" + "aB" * 17,
    "ghp_" + "a1" * 18,
    "sk-proj-" + "a1B2" * 8,
    "xoxb-1234567890-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "glpat-" + "a1" * 10,
]
ORDINARY = [
    """gcloud --format='value(items[?key=="ssh-keys"].value)'""",
    "GPU-5a1c2b3d-0000-1111-2222-333344445555 00000000:00:06.0 Off",
    "sha256:" + "ab12" * 16 + " 2f1a6c9e8d7b4a3f2f1a6c9e8d7b4a3f2f1a6c9e",
    "ED25519 key fingerprint is SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8.",
    "PWD=/root OLDPWD=/ SSH_PRIVATE_KEY=/root/.ssh/id_ed25519 SSH_AUTH_SOCK=/tmp/ssh-x/agent.1",
    "pad_token=<pad> max_tokens=4096 eos_token: 5 TOKENIZERS_PARALLELISM=false tokens=77",
    "root@h: Permission denied (publickey,password).",
    "Bearer authentication required, Basic auth failed",
    "registry.io/team/auth:v1.2.3 git@github.com:team/repo ssh://git@host/x https://host:8080/p@q",
    "export HF_TOKEN=$HF_TOKEN; run --password ${PW} --password-file /run/pw; token: invalid",
    "PUBLIC_KEY=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGlW root@x",
    "NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "/data/checkpoints/task-1234-step-000100.safetensors disk-sk-learn-contrib-package",
    '{"id": "0b1e2c3d-1111-2222-3333-444455556666", "next_token": 5, "use_auth": false, "password": null}',
]


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_replaced_in_this_form(form: str) -> None:
    out = R.text(form.format(SECRET))
    assert "canary" not in out
    assert "<secret:" in out
    assert R.text(out) == out


@pytest.mark.parametrize("token", PREFIXED)
def test_known_prefixes_are_found_anywhere(token: str) -> None:
    out = R.text(f"line one\nerror near ({token}), giving up")
    assert token not in out
    assert out.endswith("), giving up")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert R.text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.replace("\n", "\\n"),
        "x\n" + KEY[:70],
        "\n".join(KEY.split("\n")[1:]),
        f'{{"k": {json.dumps(KEY)}}}',
    ],
)
def test_private_keys_whole_or_cut(text: str) -> None:
    out = R.text(f"before\n{text}")
    assert "b3Blb" not in out
    assert "canary" not in out
    assert out.startswith("before\n")


def test_aws_secret_next_to_its_id_but_not_a_commit_id() -> None:
    secret, commit = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "0123456789abcdef0123456789abcdef01234567"
    assert secret not in R.text(f"AKIAIOSFODNN7EXAMPLE,{secret}")
    assert commit in R.text(f"AKIAIOSFODNN7EXAMPLE {commit}")


def test_equal_values_show_as_equal_whatever_their_form() -> None:
    forms = [
        "TOKEN=abc123def",
        "Authorization: Bearer abc123def",
        '"token": "abc123def"',
        "--token abc123def",
    ]
    assert {R.text(f).rstrip('">').rpartition(":")[2] for f in forms} == {R.hash("abc123def")}
    assert Redactor(b"another-key-16bytes").hash("abc123def") != R.hash("abc123def")


def test_command_lines() -> None:
    out = R.argv(["curl", "-u", "me:pw", "--token", "two words", "PASSWORD=x1", "-p", "22"])
    assert out[3:4] == ("--token",)
    assert out[6:] == ("-p", "22")
    assert not {"pw", "two", "x1"} & set(" ".join(out).replace(":", " ").split())


def test_environments_by_name_and_by_form() -> None:
    out = R.env({"A_TOKEN": "two words", "HOME": "/root", "DSN": "postgres://u:pw1@h/db", "X": "hf_" + "a1" * 17})
    assert out["HOME"] == "/root"
    assert "words" not in out["A_TOKEN"]
    assert out["DSN"].startswith("postgres://u:<secret:")
    assert out["X"].startswith("<secret:huggingface:")


def test_json_fields_pairs_and_kubernetes_secrets() -> None:
    data = {
        "env": [{"name": "X_TOKEN", "value": "q7"}, {"name": "A", "value": "plain"}],
        "Env": ["TOKEN=two words", "A=b"],
        "nested": {"password": "p7", "auth": {"user": "u"}, "pin_token": 1234567},
        "secret": {"kind": "Secret", "data": {"any": "YWJj"}},
        "n": 5,
    }
    out = R.data(data)
    text = json.dumps(out)
    assert not [s for s in ("q7", "two", "p7", "YWJj", "1234567") if f'"{s}' in text or f"={s}" in text]
    assert out["env"][1]["value"] == "plain"
    assert out["n"] == 5
    assert R.data(out) == out


def test_values_that_are_known_are_replaced_everywhere() -> None:
    out = R.knowing({"LEADER_TOKEN": "plainword77"}).text("the leader said plainword77 is stale")
    assert out.startswith("the leader said <secret:LEADER_TOKEN:")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=400))
def test_any_text_twice_is_once(text: str) -> None:
    out = R.text(text)
    assert R.text(out) == out


BITS = [
    "token",
    "password",
    "=",
    ": ",
    '"',
    "'",
    "\\",
    "\n",
    "\0",
    " ",
    "--",
    "AKIAIOSFODNN7EXAMPLE",
    "://",
    "@",
    "a:b",
    "&",
    "?",
]
BITS += [
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "|",
    "Authorization",
    "Basic dTpw",
    "x1",
    "cookie",
]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(BITS), max_size=30).map("".join))
def test_any_mixture_of_the_marks_twice_is_once(text: str) -> None:
    out = R.text(text)
    assert R.text(out) == out


@settings(max_examples=200, deadline=None)
@given(st.text("abcdefghijkXYZ0123456789+/_-.", min_size=8, max_size=60), st.sampled_from(FORMS))
def test_any_value_is_gone(value: str, form: str) -> None:
    secret = "Q9" + value.strip("-./") + "9Q"
    assert secret not in R.text(form.format(secret))


HOSTILE = [
    'token="',
    'password=\\"',
    "a",
    "a.",
    "-",
    "--a",
    "://a:",
    "://",
    "-----BEGIN RSA PRIVATE KEY-----\n",
]
HOSTILE += [
    "A" * 64 + "\n",
    "-----END RSA PRIVATE KEY-----",
    "secret: |\n",
    "secret:\n ",
    "curl -u ",
    "login a ",
]
HOSTILE += [
    "--token ",
    "?a=",
    "eyJaaaaaaaaaa.",
    "sk-",
    "AKIAIOSFODNN7EXAMPLE ",
    "token='\\",
    "\\",
    '"',
    "authorization: ",
]
HOSTILE += [
    "token: ",
    "cookie:",
    "xoxb-1",
    " ",
    "\t:",
    "key=\0",
    "Aa",
    "curl ",
    "<secret:",
    "<secret:a:12345678>",
]
HOSTILE += [
    "docker login ",
    "docker login -p",
    "mysql ",
    "mysql -p",
    "redis-cli -a ",
    "curl -u a:",
    "password is ",
    "password for a is ",
    "webhook=https://a/",
    "dsn=",
    "DB_PASS: ",
    "pass: a ",
    ";pwd=",
    "a/b@c/",
    "a:b@tcp(",
    "hooks.slack.com/services/",
    "https://a/hooks/",
    "slack://",
    "SK",
    "N.abcdef.",
    "$6$",
    "1234567:AA",
    "AAAA8Q~",
    "Private-Lines: 1\n",
    "b3BlbnNzaC1rZXktdjE\nAAAAAAAAAAAAAAAAAAAA\n",
    "MIIEpAIBAAKC",
    "sk-a",
    "hf_",
    "token ",
    "A_TOKEN v1.",
    "token v1.v1.",
    "name: a_token\nvalue:",
    "echo a|",
    "pass: ---",
    "pass: a.",
    "password for a: ",
    "api key: ",
    "secret access key ",
    "a a key: a ",
    "no token: ",
    "pass: 1.1 ",
    "vault login ",
    "sqlplus -S ",
    "sqlplus a/",
    "twine upload -p ",
    "openssl enc -k ",
    "unseal key 1: ",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    R.text(unit * (1000 // len(unit)))
    text = unit * (400_000 // len(unit))
    assert cpu_seconds(lambda: R.text(text), 3.0) < 3.0  # a quadratic pass takes minutes here


WRITTEN = [  # lines that hold a secret at a fixed place, and sentences with a word of its own for a password
    "db.example.org:5432:app:trainer:{0}", "localhost:*:*:app:{0}", "x\n/run/pg:5432:app:trainer:{0}\ny",
    "127.0.0.1:6379> AUTH {0}", "10.0.0.1:6379> auth app {0}", "AUTH default {0}", "AUTH {0}",
    "snmpwalk -v2c -c {0} 10.0.0.1", "snmpget -v 3 -u ops -A {0} 10.0.0.1", "rocommunity {0} 10.0.0.0/8", "rwcommunity6 {0}",
    "com2sec local default {0}", "snmp-server community {0} RO", "login: admin / {0}", "Credentials: root / {0}", "user = ops / {0}",
    "logged in with password {0} and went on", "tried password {0} for user bob", "Using the passphrase {0}",
]  # fmt: skip
NOT_WRITTEN = [
    "AUTH LOGIN", "250-AUTH PLAIN LOGIN", "AUTH failed", "a.py:12:foo:bar:baz qux", "foo.c:12:5: error: x",
    "root:x:0:0:root:/root:/bin/bash",
    "tests/a.py:10:test_x:body:passed", "fe80:1234:5678:90ab:cdef:1:2:3", "00000000:3B:00.0 9c:63:c0:11:22:33", "login: 3 / 5 done",
    "user: root / $GROUP", "with password authentication", "using password manager", "with password hashing enabled", "by token bucket",
    "using password field", "NCCL INFO Channel 00:1234:0:1:2", "with the password policy",
]  # fmt: skip


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("secret", ["swordfish", "Sw0rd-fish7", "calvinandhobbes"])
def test_a_secret_at_a_fixed_place_of_a_line(form: str, secret: str) -> None:
    assert secret not in R.text(form.format(secret)), R.text(form.format(secret))


@pytest.mark.parametrize("text", NOT_WRITTEN)
def test_lines_that_only_look_so_stay(text: str) -> None:
    assert R.text(text) == text

"""sshd's and PAM's lines of no known kind: those of one log-in are kept, by its process, its client or its user, and few."""

import pytest

from runbooks.parsers.ssh_text import LONGEST, MOST_OTHER, SshdMessage, other_lines, parse_sshd_log

# the module logs under its own name, in sshd's process: NVIDIA/deepops#1142
SLURM = "pam_slurm_adopt[46842]: error: uid 4242 owns no jobs"
ACCESS = "sshd[46842]: pam_access(sshd:account): access denied for user `op' from `10.0.0.9'"
NOISE = "sshd[100]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=203.0.113.9 user=op"
LOG = [
    "sshd[100]: Connection from 203.0.113.9 port 50 on 10.0.0.1 port 22",
    NOISE,
    'sshd[46842]: Connection from 10.0.0.9 port 53332 on 10.0.0.1 port 22 rdomain ""',
    "sshd[46842]: Accepted key ED25519 SHA256:mine found at /home/op/.ssh/authorized_keys:1",
    SLURM,
    ACCESS,
    "sshd[46842]: fatal: Access denied for user op by PAM account configuration [preauth]",
    "sudo[5]: pam_unix(sudo:session): session opened for user root(uid=0) by op(uid=1000)",
    "CRON[7]: pam_unix(cron:session): session opened for user op(uid=1000) by (uid=0)",
]


def stamped(lines: list[str], stamp: str = "Apr  2 10:46:36 lpt-q ") -> str:
    return "".join(f"{stamp}{line}\n" for line in lines)


def told(lines: list[str], user: str = "op", address: str = "10.0.0.9", key: str = "SHA256:mine") -> list[str]:
    return [line.partition("lpt-q ")[2] or line for line in other_lines(stamped(lines), user, address, (key,))]


def test_lines_of_the_process_that_the_client_or_its_key_names() -> None:
    assert told(LOG) == [SLURM, ACCESS]
    assert told(LOG, address="192.0.2.1") == [SLURM, ACCESS], "the server sees another address: the key names the process"
    assert [x.said for x in parse_sshd_log(stamped(LOG))] == [SshdMessage.PAM_ACCOUNT]


def test_where_neither_is_named_the_user_is() -> None:
    assert told(LOG, address="192.0.2.1", key="SHA256:other") == [NOISE, SLURM, ACCESS]
    assert told(LOG, user="alice", address="192.0.2.1", key="SHA256:other") == []
    assert told(LOG, user="o", address="10.0.0", key="SHA256:min") == [], "no part of a name is a name"


@pytest.mark.parametrize("stamp", ["2026-08-04T17:40:02+0000 lpt-q ", "2026-08-04T17:40:02.123456+00:00 lpt-q "])
def test_other_stamps(stamp: str) -> None:
    assert [x.partition("lpt-q ")[2] for x in other_lines(stamped(LOG, stamp), "op", "10.0.0.9", ())] == [SLURM, ACCESS]


def test_a_log_of_sshd_alone_has_no_processes() -> None:
    """`sshd -E FILE`."""
    lines = ["Connection from 10.0.0.9 port 5 on 10.0.0.1 port 22", "error: frob of user op", "error: frob of user bob"]
    assert other_lines("\n".join(lines), "op", "10.0.0.9", ()) == ("error: frob of user op",)


def test_9_8_and_later_name_sshd_session() -> None:
    lines = ["sshd-session[9]: Connection from 10.0.0.9 port 5", "sshd-session[9]: error: frob", "sshd-session[8]: error: frob of another"]
    assert told(lines) == ["sshd-session[9]: error: frob"]


def test_few_are_kept_each_once_and_not_whole() -> None:
    many = [LOG[2], *(f"sshd[46842]: error: frob {n} {'x' * 999}" for n in range(50))]
    kept = told(many)
    assert len(kept) == MOST_OTHER
    assert "frob 49 " in kept[-1]
    assert all(len(line) <= LONGEST for line in kept)
    assert told([LOG[2], *["sshd[46842]: error: frob"] * 50]) == ["sshd[46842]: error: frob"]
    assert other_lines("", "op", "10.0.0.9", ()) == ()

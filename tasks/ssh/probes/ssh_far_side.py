"""On the node: what sshd sees of one user's keys: account, path, settings, authorized_keys, its log. Changes nothing.

Argument: {user, port, client, log_from: {path, size} | null, position_only}. Needs root for sshd -T and /etc/shadow."""

import contextlib
import glob
import grp
import json
import os
import re
import subprocess
import sys
from typing import Any, Dict, List, Optional, Tuple

from tasks.ssh.probes.ssh_authorized import keys_in

TAIL = 262144


def read(path: str) -> str:
    try:
        with open(path, "rb") as f:
            return f.read().decode("utf-8", "replace")
    except OSError:
        return ""


def run(argv: List[str]) -> Tuple[int, str, str]:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=15
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return 127, "", str(e)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def listeners() -> List[Tuple[str, str]]:
    """(config, log) of every sshd that listens, as its command line says."""
    found = []  # type: List[Tuple[str, str]]
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        words = read(path).replace("\0", " ").strip()
        if (
            "sshd" not in words.split(" ")[0]
            or "gpu-runbooks-probe" in words
            or re.match(r"sshd: \S+(@| \[(priv|net))", words)
        ):
            continue
        conf = re.search(r" -f (\S+)", words)
        log = re.search(r" -E (\S+)", words)
        found.append((conf.group(1) if conf else "/etc/ssh/sshd_config", log.group(1) if log else ""))
    return list(dict.fromkeys(found))


def settings(conf: str, user: str, client: str) -> Tuple[int, str, str]:
    argv = ["/usr/sbin/sshd", "-T", "-f", conf, "-C", "user=%s,host=%s,addr=%s" % (user, client, client)]
    return run(argv)


def choose(ask: Dict[str, Any]) -> Tuple[bool, str, str, str, str]:
    """The sshd that serves the port, else the only one: (runs, config, log, settings text, what it said)."""
    seen = []  # type: List[Tuple[str, str, str, str]]
    for conf, log in listeners():
        code, out, err = settings(conf, ask["user"], ask["client"])
        ports = re.findall(r"^port (\d+)$", out, re.M)
        seen.append((conf, log, out if code == 0 else "", err.strip()[-300:]))
        if str(ask["port"]) in ports:
            return (True,) + seen[-1]
    if len(seen) == 1:
        return (True,) + seen[0]
    code, out, err = settings("/etc/ssh/sshd_config", ask["user"], ask["client"])
    return False, "/etc/ssh/sshd_config", "", out if code == 0 else "", err.strip()[-300:]


def log_place(log: str) -> Dict[str, Any]:
    for path in (log, "/var/log/auth.log", "/var/log/secure"):
        if path and os.path.exists(path):
            return {"path": path, "size": os.path.getsize(path)}
    return {"path": "", "size": 0}


def log_text(place: Dict[str, Any]) -> str:
    path = place.get("path", "")
    if not path:
        code, out, _ = run(["journalctl", "-u", "ssh", "-u", "sshd", "--since", "-2min", "-o", "short-iso", "-n", "300"])
        return out if code == 0 else ""
    try:
        with open(path, "rb") as f:
            size = os.path.getsize(path)
            begin = place["size"] if place["size"] <= size else 0
            f.seek(max(begin, size - TAIL))
            text = f.read(TAIL).decode("utf-8", "replace")
            whole = text.partition("\n")[2] or text.partition(" ")[2]  # half a secret is not known for one
            return whole if size - TAIL > begin else text
    except OSError:
        return ""


def accepted(place: Dict[str, Any]) -> List[str]:
    """Lines about log-ins with a key, the last ones of the log's last megabytes."""
    if not place.get("path"):
        code, out, _ = run(["journalctl", "-u", "ssh", "-u", "sshd", "-o", "short-iso", "-n", "20", "-g", "Accepted publickey"])
        return out.splitlines() if code == 0 else []
    try:
        with open(place["path"], "rb") as f:
            f.seek(max(0, os.path.getsize(place["path"]) - 16 * TAIL))
            lines = f.read(16 * TAIL).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line[:400] for line in lines if "Accepted publickey for " in line][-200:]


def account(user: str) -> Optional[Dict[str, Any]]:
    for line in read("/etc/passwd").splitlines():
        f = line.split(":")
        if len(f) >= 7 and f[0] == user:
            return {"uid": int(f[2]), "gid": int(f[3]), "home": f[5], "shell": f[6] or "/bin/sh", "groups": groups(user, int(f[3]))}
    code, out, _ = run(["getent", "passwd", user])
    f = out.strip().split(":")
    if code == 0 and len(f) >= 7:
        return {"uid": int(f[2]), "gid": int(f[3]), "home": f[5], "shell": f[6] or "/bin/sh", "groups": groups(user, int(f[3]))}
    return None


def groups(user: str, gid: int) -> List[str]:
    """By name, as sshd compares them; the user's own first."""
    found = []
    for number in sorted(os.getgrouplist(user, gid), key=lambda g: g != gid):
        with contextlib.suppress(KeyError):
            found.append(grp.getgrgid(number).gr_name)
    return found


def locked(user: str) -> Optional[bool]:
    """Whether /etc/shadow locks the account; None when it cannot be read."""
    for line in read("/etc/shadow").splitlines():
        f = line.split(":")
        if f[0] == user and len(f) > 1:
            return f[1].startswith("!")
    return None


def entry(path: str) -> Dict[str, Any]:
    try:
        s = os.lstat(path)
    except OSError:
        return {"path": path, "exists": False}
    return {
        "path": path, "exists": True, "uid": s.st_uid, "gid": s.st_gid, "mode": s.st_mode & 0o7777,
        "device": s.st_dev, "inode": s.st_ino, "written_s": s.st_mtime,
    }  # fmt: skip


def way_to(path: str, home: str) -> List[str]:
    """The file and its folders, up to the home or to the root, as StrictModes walks them."""
    real = os.path.realpath(path)
    home = os.path.realpath(home) if home else ""
    out = [real]
    while out[-1] not in (home, "/"):
        out.append(os.path.dirname(out[-1]))
    return out


def leads_to(path: str, home: str) -> str:
    """Where it really lies when a part of it below the home is a link; links on the way to the home are the machine's own."""
    if not path.startswith(home.rstrip("/") + "/"):
        return ""
    real = os.path.realpath(path)
    return real if real != os.path.join(os.path.realpath(home), os.path.relpath(path, home)) else ""


def put_in(name: str, user: str, who: Dict[str, Any]) -> str:
    """A path of sshd_config for that user."""
    tokens = {"%h": who["home"], "%u": user, "%U": str(who["uid"]), "%%": "%"}
    return re.sub("%.", lambda found: tokens.get(found.group(0), found.group(0)), name)


def shell_in_chroot(text: str, user: str, who: Dict[str, Any]) -> Optional[bool]:
    """Whether the user's shell is inside ChrootDirectory; None without one."""
    found = re.search(r"^chrootdirectory (.+)$", text, re.M)
    if not found or found.group(1) == "none":
        return None
    return os.access(put_in(found.group(1), user, who).rstrip("/") + who["shell"], os.X_OK)


def nologin() -> Dict[str, str]:
    """The file that closes a machine to all but root, and how it begins."""
    for path in ("/etc/nologin", "/run/nologin"):
        if os.path.exists(path):
            return {"path": path, "text": read(path)[:2000]}
    return {}


def look(ask: Dict[str, Any]) -> Dict[str, Any]:
    runs, conf, log, text, said = choose(ask)
    place = log_place(log)
    if ask.get("position_only"):
        return {"log": place}
    who = account(ask["user"])
    answer = {"sshd_runs": runs, "config": conf, "settings": text, "settings_say": said, "user": who}
    answer["locked"] = locked(ask["user"])
    answer["nologin"] = nologin()
    answer["log"] = place
    answer["accepted"] = accepted(place)
    answer["log_text"] = log_text(ask.get("log_from") or {"path": place["path"], "size": 0})
    if who is None:
        return answer
    answer["shell_exists"] = os.access(who["shell"], os.X_OK)
    answer["shell_in_chroot"] = shell_in_chroot(text, ask["user"], who)
    wanted = re.search(r"^authorizedkeysfile (.+)$", text, re.M)
    names = (wanted.group(1) if wanted else ".ssh/authorized_keys .ssh/authorized_keys2").split()
    files = []  # type: List[Dict[str, Any]]
    path = []  # type: List[str]
    for name in names:
        if name == "none":
            continue
        name = put_in(name, ask["user"], who)
        full = name if name.startswith("/") else os.path.join(who["home"], name)
        e = entry(full)
        files.append({"path": full, "exists": e["exists"], "entry": e, "keys": keys_in(full) if e["exists"] else []})
        files[-1]["leads_to"] = leads_to(full, who["home"])
        path += [p for p in way_to(full, who["home"]) if p not in path and e["exists"]]  # sshd looks no further without it
    for name in (".ssh/authorized_keys", ".ssh/authorized_keys2"):
        full = os.path.join(who["home"], name)
        if full not in [f["path"] for f in files] and os.path.exists(full):
            files.append({"path": full, "exists": True, "entry": entry(full), "keys": keys_in(full), "by_sshd": False})
    answer["files"] = files
    answer["path"] = [entry(p) for p in path]
    return answer


if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))))

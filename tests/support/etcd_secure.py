"""A real etcd behind TLS with client certificates and, on wish, users of both its APIs."""

import base64
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.ports import free_port
from tests.support.etcd import Etcd
from tests.support.need import need_program

PASSWORD = "correct-horse-7"


def certificates(folder: Path) -> dict[str, str]:
    """An authority, a certificate of 127.0.0.1 and one of a client; paths by the names that the fleet file uses."""
    need_program("openssl", "openssl")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    _openssl(folder, "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority")
    for name, subject in (("server", "/CN=etcd"), ("client", "/CN=runbooks")):
        _openssl(folder, "req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return {"ca": str(folder / "ca.pem"), "cert": str(folder / "client.pem"), "key": str(folder / "client.key")}


def _openssl(folder: Path, *argv: str) -> None:
    subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True)


class SecureEtcd(Etcd):
    """Its own client shows the certificate, and the user root once there is one."""

    def __init__(self, folder: Path, port: int, peer: int, tls: dict[str, str], *options: str) -> None:
        super().__init__(folder, port, peer, *options)
        self.url, self.tls = f"https://127.0.0.1:{port}", tls
        self.context = ssl.create_default_context(cafile=tls["ca"])
        self.context.load_cert_chain(tls["cert"], tls["key"])

    def require_users(self) -> None:
        """Both APIs want the user root from now on; guests may do nothing."""
        self.call("PUT", "/v2/auth/users/root", body={"user": "root", "password": PASSWORD})
        self.call("PUT", "/v2/auth/enable")
        pair = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
        self.headers = {"Authorization": f"Basic {pair}"}
        rights = {"kv": {"read": ["/*"], "write": ["/*"]}}
        self.call("PUT", "/v2/auth/roles/guest", body={"role": "guest", "revoke": rights})
        for path, said in (
            ("user/add", {"name": "root", "password": PASSWORD}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            self.call("POST", f"/v3/auth/{path}", body=said)


@contextmanager
def secure_etcd(folder: Path, *options: str) -> Iterator[SecureEtcd]:
    """A server for one test that talks only to holders of a certificate of its own authority."""
    need_program("etcd", "etcd-server")
    tls = certificates(folder)
    files = [f"--cert-file={folder}/server.pem", f"--key-file={folder}/server.key"]
    files += [f"--trusted-ca-file={tls['ca']}", "--client-cert-auth=true", "--enable-v2=true"]
    server = SecureEtcd(folder, free_port(), free_port(), tls, *files, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()

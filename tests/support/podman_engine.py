"""Podman behind its Docker-compatible socket, private to the test: its own storage, host network, runc."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.docker_engine import Engine, busybox_tar
from tests.support.need import need_program

CONTAINERS = """[containers]
netns="host"
cgroups="enabled"
default_ulimits=["nofile=1024:1024","nproc=1024:1024"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime="runc"
"""


class PodmanEngine(Engine):
    """One `podman system service`, spoken to by Docker's client."""

    def start_argv(self) -> list[str]:
        """The service in the foreground."""
        return [*self.podman(), "system", "service", "--time=0", f"unix://{self.socket}"]

    def podman(self) -> list[str]:
        """Podman itself, on the same storage."""
        env = [f"CONTAINERS_CONF={self.folder}/containers.conf", f"CONTAINERS_STORAGE_CONF={self.folder}/storage.conf"]
        return ["env", *env, f"TMPDIR={self.folder}", "podman"]

    def configure(self) -> None:
        """Writes its two files."""
        (self.folder / "containers.conf").write_text(CONTAINERS)
        where = f'runroot="{self.folder}/run"\ngraphroot="{self.folder}/data"\n'
        (self.folder / "storage.conf").write_text(f'[storage]\ndriver="vfs"\n{where}')

    def down(self) -> None:
        """Containers, service, files."""
        subprocess.run([*self.podman(), "rm", "-fa", "-t", "0"], capture_output=True, check=False, timeout=60)
        if self._wrapper is not None:
            self._wrapper.terminate()
            self._wrapper.wait(10)
        subprocess.run(["umount", "-l", str(self.folder / "data")], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def podman_engine() -> Iterator[PodmanEngine]:
    """A ready service with the image bb:1."""
    need_program("podman", "podman")
    need_program("runc", "runc")
    docker = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else need_program("docker", "docker.io")  # noqa: PTH110
    engine = PodmanEngine(Path(tempfile.mkdtemp(prefix="pm")), docker, "")
    engine.configure()
    try:
        engine.up()
        engine.run("import", str(busybox_tar(engine.folder)), "bb:1")
        yield engine
    finally:
        engine.down()

"""Which torch a process has loaded, by the file that lies beside its library. Part of a probe. Python 3.6."""

import re

from tasks.remote.probes.proc import read

LIBRARY = re.compile(r" (/\S*)/torch/lib/libtorch\w*\.so$", re.M)
VERSION = re.compile(r"""^__version__ = ['"](\d+\.\d+[\w.+-]{0,40})['"]""", re.M)


def torch_version(pid: int, state: str) -> str:
    """As "2.8.0+cu128"; "" where it has none, or that may not be read. One stuck in the kernel is not asked: its maps may hang."""
    found = LIBRARY.search(read("/proc/%d/maps" % pid, 8 << 20) or "") if state not in "DZX" else None
    text = read("/proc/%d/root%s/torch/version.py" % (pid, found.group(1))) if found else ""
    version = VERSION.search(text or "")
    return version.group(1) if version else ""

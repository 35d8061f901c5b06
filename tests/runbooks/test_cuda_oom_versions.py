"""The words of an out-of-memory error of torch, by the version that writes them: the same numbers out of each."""

import pytest

from runbooks.parsers.cuda_oom import parse_cuda_ooms

GIB, MIB = 1 << 30, 1 << 20
HEAD = "CUDA out of memory. Tried to allocate 512.00 MiB"
OLD = f"{HEAD} (GPU 1; 16.00 GiB total capacity; 14.00 GiB already allocated; 256.00 MiB free; "
NEW = (
    f"torch.OutOfMemoryError: {HEAD}. GPU 1 has a total capacity of 16.00 GiB of which 256.00 MiB is free. Including non-PyTorch "
    "memory, this process has 15.00 GiB memory in use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and 1.00 GiB is "
    "reserved by PyTorch but unallocated."
)
SPLIT = " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
WORDS = {  # c10/cuda/CUDACachingAllocator.cpp of each release
    "0.4 to 1.3, cached beside the allocated": f"RuntimeError: {OLD}1.00 GiB cached)",
    "1.4 to 1.9": f"RuntimeError: {OLD}15.00 GiB reserved in total by PyTorch)",
    "1.10 to 2.0": f"torch.cuda.OutOfMemoryError: {OLD}15.00 GiB reserved in total by PyTorch){SPLIT}",
    "2.1": NEW.replace("capacity", "capacty").replace("torch.", "torch.cuda."),
    "2.2 and later": f"{NEW} If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    "with another process": NEW.replace("Including", "Process 4242 has 100.00 MiB memory in use. Including"),
    "with graphs": NEW.replace("by PyTorch, and", "by PyTorch, with 64.00 MiB allocated in private pools (e.g., CUDA Graphs), and"),
}


@pytest.mark.parametrize("version", WORDS)
def test_the_same_numbers_of_every_version(version: str) -> None:
    (found,) = parse_cuda_ooms(f"[rank3]: {WORDS[version]}\n")
    assert (found.gpu, found.rank, found.tried) == (1, 3, 512 * MIB)
    assert (found.total, found.free) == (16 * GIB, 256 * MIB)
    assert (found.mine, found.allocated, found.unused) == (15 * GIB, 14 * GIB, GIB)
    assert [o.pid for o in found.others] == ([4242] if "4242" in WORDS[version] else [])

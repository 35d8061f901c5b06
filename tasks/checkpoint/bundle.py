"""Builds the one constant program that looks at checkpoints on a node: the checkers of runbooks/checkpoint/parsers and one
script behind them."""

from functools import cache

from tasks.remote.program import program

MODULES = (
    "types",
    "machine",
    "pickled",
    "zip_file",
    "groups",
    "gguf",
    "msgpack",
    "formats",
    "tensors",
    "torch",
    "legacy",
    "safetensors",
    "sniff",
    "marker",
    "dcp",
    "manifest",
    "needs",
    "agree",
    "sets",
    "crc",
    "finite",
    "content",
)


@cache
def bundle(script: str, *extra: str) -> str:
    """The program whose main part is the probe `script`; `extra` are probes that it imports. Always the same
    text."""
    modules = ["runbooks.parsers.file_magic", *(f"runbooks.checkpoint.parsers.{m}" for m in MODULES),
        "ckpt_fs",
        "ckpt_holders",
        "below",
        "ckpt_files",
        "ckpt_names",
        *extra,
    ]
    return program(tuple(modules), script)

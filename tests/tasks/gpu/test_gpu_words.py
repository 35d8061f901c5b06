"""Where a fleet file says that a node has GPUs."""

import pytest

from runbooks.core.fleet import Node
from tasks.gpu.read import gpu_words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ()),
        ({"gpus": 8}, ("gpus: 8",)),
        ({"gpus": 0, "labels": {"gpu": "h100"}}, ()),
        ({"labels": {"gpu": "h100", "rack": "7"}}, ("label gpu=h100",)),
        ({"labels": {"nvidia.com/gpu.count": "8"}}, ("label nvidia.com/gpu.count=8",)),
        ({"labels": {"gpu": "None"}}, ()),
    ],
)
def test_words(fields: dict[str, object], words: tuple[str, ...]) -> None:
    assert gpu_words(Node.model_validate({"name": "n", "local": True, **fields})) == words

"""The name of the work pool that `up` makes."""


POOL = "gpu-runbooks"

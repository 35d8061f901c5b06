"""What a command raises to end with a plain sentence instead of a traceback."""

NO_SERVER, FAULT, NO_WORKER = 5, 6, 7  # exit codes; the others are outcomes (runbooks/core/outcome.py), 2 for usage


class CommandError(Exception):
    """The message is for the operator as it stands; `exit_code` 2 is bad usage or configuration, 4 a refusal."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code

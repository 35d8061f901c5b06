"""`python -m deployments.cli`: the same as `gpu-runbooks`."""

import sys

from deployments.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

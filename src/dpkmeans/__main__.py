"""`python -m dpkmeans` is the command `dpkmeans`."""

import sys

from dpkmeans.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

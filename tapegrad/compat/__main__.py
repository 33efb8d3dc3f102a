"""``python -m tapegrad.compat run script.py``: as ``tapegrad run script.py``."""

import sys

from tapegrad.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["run", "--help"]))

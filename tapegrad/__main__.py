"""``python -m tapegrad`` is the command ``tapegrad``."""

import sys

if __name__ == "__main__":
    from tapegrad.cli import main

    sys.exit(main())

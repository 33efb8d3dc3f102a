import sys

from benchmarks.cuda_models.cli import main

sys.exit(main())

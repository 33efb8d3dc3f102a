"""Seconds that `import MODULE` takes in a fresh interpreter."""

import importlib
import json
import sys
import time

start = time.perf_counter()
importlib.import_module(sys.argv[1])
elapsed = time.perf_counter() - start
print(json.dumps({"": elapsed}))

#!/usr/bin/env bash
# Builds the extension with the address and undefined-behaviour sanitizers and runs the tests on it.
# Usage: scripts/sanitize.sh PYTHON [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1")
shift
folder=build/sanitize
export PATH="$(dirname "$python"):$PATH"
cmake -S . -B $folder -G Ninja -DTAPEGRAD_SANITIZE=ON -DTAPEGRAD_IN_TREE=OFF \
  -DCMAKE_INSTALL_PREFIX=$folder/site -DPython_EXECUTABLE="$python"
cmake --build $folder -j2
cmake --install $folder
cp -r tapegrad/*.py tapegrad/*.pyi tapegrad/*/ $folder/site/tapegrad/
# Python itself is not instrumented, so the runtime is loaded first. The interpreter's own small
# leaks at exit are not ours: leaks of tensors and entries are counted by the suite itself.
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export PYTHONPATH=$PWD/$folder/site
# Tests of what a sanitized build does differently (no pools) or of other people's libraries that the
# preloaded runtime breaks (NVRTC) skip themselves.
export TAPEGRAD_SANITIZED=1
# The pytest command, not `python -m pytest`: that would put the checkout before PYTHONPATH.
exec "$(dirname "$python")/pytest" -p no:cacheprovider "$@"

# Each target works alone on a fresh machine with Python 3.10+ and a C++20 compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := .venv-packages
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
LINT_STAMP := $(VENV)/.installed-lint

# A .venv without pip, as Debian makes it where python3-venv is missing, is made again next time.
.DELETE_ON_ERROR:
.PHONY: help install train test test-packages test-cuda soak bench bench-cuda lint format names ops stubs sanitize clean

help:           ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Build and install whenever a source file changed.
SOURCES := $(shell find csrc tapegrad -name '*.cpp' -o -name '*.h' -o -name '*.def' -o -name '*.py' \
             -o -name '*.cuh' -o -name '*.map' -o -name '*.pyi' -o -name '*.gz' -o -path '*/show/assets/*') \
             CMakeLists.txt pyproject.toml
$(STAMP): $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install .
	@touch $@

# What tests and checks need beside it. The extras of the package that is installed: `.[test]` would
# build it again. They change with pyproject.toml only, so a change in a source leaves them alone.
$(TEST_STAMP): pyproject.toml | $(STAMP)
	$(BIN)/python -m pip install 'tapegrad[test]'
	@touch $@

$(LINT_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'ruff>=0.6' 'mypy>=1.11' 'basedpyright>=1.30' 'clang-format>=18' numpy
	@touch $@

define SAY_NEXT
echo; echo 'tapegrad is installed in $(VENV). To use it in this shell:'; \
echo '    source $(BIN)/activate     # then `tapegrad --help`, or `python` and `import tapegrad`'
endef

install: $(STAMP)   ## make .venv, build, and install there
	@$(SAY_NEXT)

train: $(STAMP)   ## train a small language model, about two minutes; see runs/*/report.html
	$(BIN)/tapegrad train
	@$(SAY_NEXT)

test: $(STAMP) $(TEST_STAMP)   ## run the whole test suite
	$(BIN)/pytest -n 2

test-packages: $(STAMP) $(TEST_STAMP)   ## packages that were written for PyTorch, in an environment of their own
	$(BIN)/python scripts/package_stage.py install $(PACKAGES)
	TAPEGRAD_PACKAGES_PYTHON=$(CURDIR)/$(PACKAGES)/bin/python $(BIN)/pytest -n 2 -rs tests/packages

test-cuda: $(STAMP) $(TEST_STAMP)   ## all tests of the CUDA back end, on a GPU or on the emulator
	TAPEGRAD_TEST_CUDA=all $(BIN)/pytest -n 2 tests/cuda tests/test_cuda_source.py

bench-cuda: $(STAMP)   ## compare with PyTorch on a GPU
	$(BIN)/python -m pip install --quiet 'tapegrad[parity,cuda]'
	$(BIN)/python -m benchmarks.cuda --out benchmarks/results/cuda-vs-torch.md
	$(BIN)/python -m benchmarks.cuda_models --compiled --limit 1200 --out benchmarks/results/cuda-models.md

soak: $(STAMP) $(TEST_STAMP)   ## the generators of tests at full length, beside PyTorch; some hours
	$(BIN)/python -m pip install --quiet 'tapegrad[parity]'
	$(BIN)/python scripts/soak.py

bench: $(STAMP)   ## compare with PyTorch; prints ratios, writes benchmarks/results/
	$(BIN)/python -m pip install --quiet 'tapegrad[parity]'
	$(BIN)/python -m benchmarks

lint: $(LINT_STAMP)   ## style, types, include direction, notes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'csrc/*.cpp' 'csrc/*.h' 'tests/cuda_emulator/*.cpp' 'tests/cuda_emulator/*.h' 'examples/cpp/*.cpp')
	$(BIN)/python scripts/check_includes.py
	$(BIN)/python scripts/check_notes.py
	$(BIN)/python scripts/check_types.py

format: $(LINT_STAMP)  ## apply the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'csrc/*.cpp' 'csrc/*.h' 'tests/cuda_emulator/*.cpp' 'tests/cuda_emulator/*.h' 'examples/cpp/*.cpp')

names: $(STAMP)   ## write tapegrad/_names.py anew
	$(BIN)/python scripts/make_names.py

stubs: $(STAMP)   ## write tapegrad/_C.pyi and tapegrad/__init__.pyi anew
	$(BIN)/python scripts/make_stubs.py
	$(BIN)/python scripts/make_package_stub.py

ops: $(STAMP)     ## write docs/ops.md anew
	$(BIN)/python scripts/make_ops_page.py

sanitize: $(TEST_STAMP)  ## the test suite under ASAN and UBSAN
	$(BIN)/python -m pip install --quiet nanobind scikit-build-core scipy-openblas32 cmake ninja
	scripts/sanitize.sh $(BIN)/python -n 2

clean:          ## remove everything that was built
	rm -rf build dist $(VENV) $(PACKAGES) tapegrad/*.so tapegrad/lib

# Each target works alone on a fresh machine with Python 3.10+ and a C++20 compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help train test bench lint format stubs sanitize clean

help:           ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Build and install whenever a source file changed.
SOURCES := $(shell find csrc tapegrad -name '*.cpp' -o -name '*.h' -o -name '*.def' -o -name '*.py' \
             -o -name '*.cuh' -o -name '*.pyi' -o -name '*.gz' -o -path '*/show/assets/*') \
             CMakeLists.txt pyproject.toml
$(STAMP): $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install '.[test]'
	@touch $@

train: $(STAMP)   ## train a small language model, about two minutes; see runs/*/report.html
	$(BIN)/tapegrad train

test: $(STAMP)    ## run the whole test suite
	$(BIN)/pytest -n 2

bench: $(STAMP)   ## compare with PyTorch; prints ratios, writes benchmarks/results/
	$(BIN)/python -m pip install --quiet '.[parity]'
	$(BIN)/python -m benchmarks

lint: $(BIN)/python   ## style, types, include direction, notes, stubs
	$(BIN)/python -m pip install --quiet 'ruff>=0.6' 'mypy>=1.11' 'clang-format>=18'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'csrc/*.cpp' 'csrc/*.h')
	$(BIN)/python scripts/check_includes.py
	$(BIN)/python scripts/check_notes.py

format: $(BIN)/python  ## apply the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'csrc/*.cpp' 'csrc/*.h')

stubs: $(STAMP)   ## write tapegrad/_C.pyi anew
	$(BIN)/python scripts/make_stubs.py

sanitize: $(BIN)/python  ## the test suite under ASAN and UBSAN
	$(BIN)/python -m pip install --quiet nanobind scikit-build-core scipy-openblas32 cmake ninja
	scripts/sanitize.sh $(BIN)/python

clean:          ## remove everything that was built
	rm -rf build dist $(VENV) tapegrad/*.so tapegrad/lib

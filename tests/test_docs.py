"""The documentation is true: examples run, quotations stand in the sources, links lead on."""

import contextlib
import doctest
import gc
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import textwrap
from pathlib import Path

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the documentation is tapegrad's own", allow_module_level=True)

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^( *)```(\S+)(?: +(\S+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\) +# (.+)$", re.MULTILINE)
NAMED_FILE = re.compile(
    r"`(?:python )?((?:benchmarks|csrc|docs|examples|scripts|tapegrad|tests)/[\w./*-]+)[ \w./-]*`"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
FROM_SCRATCH = ROOT / "docs" / "internals" / "autograd-from-scratch.md"
MOST_LINES_FROM_SCRATCH = 300


def relative(path):
    return str(path.relative_to(ROOT))


def blocks(path, language):
    """Yield the code blocks of a document in a language, with the word after it: a path or None."""
    for _, found, word, code in FENCE.findall(path.read_text(encoding="utf-8")):
        if found == language:
            yield textwrap.dedent(code), word or None


each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=relative)


@each_document
def test_python_blocks_run(path):
    """The blocks of a document run in order; a print shows what the comment behind it says."""
    namespace = {"__name__": path.stem}
    checker = doctest.OutputChecker()
    for number, (code, _) in enumerate(blocks(path, "python"), start=1):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, f"{relative(path)}, block {number}", "exec"), namespace)
        expected = PRINTED.findall(code)
        if expected:
            got = output.getvalue()
            want = "\n".join(expected) + "\n"
            assert checker.check_output(want, got, FLAGS), f"expected:\n{want}\ngot:\n{got}"
    namespace.clear()
    gc.collect()  # a tape that lived on would count in the next document's budget


def test_from_scratch_stays_short():
    lines = sum(len(code.splitlines()) for code, _ in blocks(FROM_SCRATCH, "python"))
    assert 100 < lines <= MOST_LINES_FROM_SCRATCH


@each_document
def test_quotations_stand_in_the_sources(path):
    """A block headed ``cpp`` or ``py`` and a path quotes that file, line breaks apart."""
    for code, source in (*blocks(path, "cpp"), *blocks(path, "py")):
        assert source, f"{relative(path)}: a quotation names no file:\n{code}"
        text = " ".join((ROOT / source).read_text(encoding="utf-8").split())
        assert " ".join(code.split()) in text, f"{source} no longer says:\n{code}"


def test_some_sources_are_quoted():
    quoted = [source for path in DOCUMENTS for _, source in blocks(path, "cpp")]
    assert "csrc/pointwise.def" in quoted


@each_document
def test_links_lead_to_files(path):
    targets = [target for target, _ in LINK.findall(path.read_text(encoding="utf-8"))]
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (path.parent / target).exists()]
    assert not missing, f"{relative(path)} links to {missing}"


@each_document
def test_files_named_in_the_text_exist(path):
    """As `csrc/pointwise.def` does, or `python scripts/draw_tape.py`; of a pattern, one file."""
    named = NAMED_FILE.findall(path.read_text(encoding="utf-8"))
    missing = [name for name in named if next(ROOT.glob(name), None) is None]
    assert not missing, f"{relative(path)} names {missing}"


@each_document
def test_every_document_is_linked_from_the_index(path):
    index = ROOT / "docs" / "index.md"
    if path == index or path.parent == ROOT:
        return
    assert f"({path.relative_to(index.parent)})" in index.read_text(encoding="utf-8")


# ---- docstrings


def python_modules():
    """Return every Python module of the package; those of an extra only if it is installed."""
    names = [info.name for info in pkgutil.walk_packages(torch.__path__, "tapegrad.")]
    left_out = {"tapegrad._C"}
    if importlib.util.find_spec("tensorboard") is None:
        left_out.add("tapegrad.utils.tensorboard")
    return [torch, *(importlib.import_module(name) for name in names if name not in left_out)]


def native_objects():
    """Return what the native module defines and documents, by name."""
    native = torch._C
    found = {f"_C.{name}": value for name, value in vars(native).items() if callable(value)}
    classes = [value for value in vars(native).values() if inspect.isclass(value)]
    for cls in classes:
        for name, value in vars(cls).items():
            found[f"_C.{cls.__name__}.{name}"] = value
    return found


def examples():
    """Return all doctests, each docstring once."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    parser = doctest.DocTestParser()
    found, seen = [], set()
    for module in python_modules():
        # A user of the whole package writes torch.bool for its dtype and bool for Python's.
        names = {} if module is torch else vars(module)
        for test in finder.find(module, module.__name__, globs=names):
            text = inspect.cleandoc(test.docstring)
            if test.examples and text not in seen:
                seen.add(text)
                found.append(test)
    for name, value in sorted(native_objects().items()):
        text = inspect.getdoc(value) or ""
        if ">>>" in text and text not in seen:
            seen.add(text)
            found.append(parser.get_doctest(text, {}, name, None, None))
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_in_docstrings(example):
    example.globs |= {"torch": torch, "tapegrad": torch}
    report = io.StringIO()
    results = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.write)
    assert results.attempted > 0
    assert results.failed == 0, report.getvalue()


def test_there_are_examples_of_both_kinds():
    native = [example for example in EXAMPLES if example.name.startswith("_C.")]
    assert len(native) >= 20
    assert len(EXAMPLES) - len(native) >= 20


def public_functions(namespace):
    """Return the public functions of a module or class, by name."""
    found = {name: getattr(namespace, name) for name in dir(namespace) if not name.startswith("_")}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and not isinstance(value, torch.dtype)
    }


@pytest.mark.parametrize(
    "namespace",
    [torch, torch.nn.functional, torch.autograd, importlib.import_module("tapegrad.cuda")],
    ids=lambda module: module.__name__,
)
def test_public_functions_have_docstrings(namespace):
    check_documented(namespace)


def test_tensor_methods_have_docstrings():
    check_documented(torch.Tensor)


def check_documented(namespace):
    functions = public_functions(namespace)
    assert functions
    bare = [name for name, value in functions.items() if not (inspect.getdoc(value) or "").strip()]
    assert not bare, f"{namespace.__name__}: no docstring: {bare}"

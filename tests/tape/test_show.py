"""Other ways to show a tape: Graphviz, JSON, a trace for Perfetto, totals for a terminal."""

import json
import re
import shutil
import subprocess

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tape.documents import Builder, gpt, random_graph, small
from tapegrad.tape import show
from tapegrad.tape.show.page import _pack

HOSTILE = 'a"b\\c\n{d} -> <e>; \\"\x00 é'


@pytest.fixture(params=["small", "hostile", "gpt", "random", "empty"])
def document(request):
    return {
        "small": small,
        "hostile": lambda: small(HOSTILE, hostile=HOSTILE),
        "gpt": lambda: gpt(2),
        "random": lambda: random_graph(300, modules=12, seed=5),
        "empty": lambda: Builder("nothing").document(),
    }[request.param]()


# ---- timeline


def test_a_storage_lives_until_its_last_user_has_run():
    b = Builder()
    shared, own = b.value([4]), b.value([2])
    b.op("a", [], [[1]], save=[("x", "input", shared)])
    b.op("b", [(0, 0)], [[1]], save=[("x", "input", shared), ("y", "value", own)])
    b.op("c", [(1, 0)], [[1]])
    found = show.timeline(b.document())
    assert found == show.Timeline([16, 24, 24], [24, 16, 0], 24, 1)


def test_the_sweep_frees_all(document):
    found = show.timeline(document)
    assert found.peak == document["total_bytes"] == max(found.forward, default=0)
    assert not found.backward or found.backward[-1] == 0


# ---- Graphviz

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[\w.]+|[{}\[\]=,;]|\s+')


def read_dot(text):
    """Parse what dot_text writes: clusters (path to nodes), labels of nodes, edges.

    Raises AssertionError where Graphviz's grammar is not kept.
    """
    tokens, at = [], 0
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found, f"no token at {text[at : at + 40]!r}"
        at = found.end()
        if not found[0].isspace():
            tokens.append(found[0])
    tokens = tokens[::-1]
    word = tokens.pop

    def unquoted(token):
        assert token[0] == token[-1] == '"'
        return re.sub(r"\\(.)", lambda f: {"n": "\n"}.get(f[1], f[1]), token[1:-1])

    def attributes():
        found = {}
        while tokens[-1] != "]":
            name = word()
            assert word() == "="
            found[name] = word()
            if tokens[-1] == ",":
                word()
        word()
        return found

    clusters, labels, edges, opened = {}, {}, [], []
    assert word() == "digraph"
    title = unquoted(word())
    assert word() == "{"
    while True:
        token = word()
        if token == "}":
            if not opened:
                break
            opened.pop()
        elif token == "subgraph":
            name = unquoted(word())
            assert name.startswith("cluster") and word() == "{"
            opened.append(name.removeprefix("cluster "))
            clusters[tuple(opened)] = []
        elif token in ("graph", "node", "edge"):
            assert word() == "[" and attributes() and word() == ";"
        elif token == "label":
            assert word() == "=" and unquoted(word()) == opened[-1] and word() == ";"
        elif tokens[-1] == "->":
            word()
            edges.append((token, word()))
            if tokens[-1] == "[":
                word()
                attributes()
            assert word() == ";"
        else:
            assert re.fullmatch(r"n\d+", token) and word() == "["
            labels[token] = unquoted(attributes()["label"])
            clusters.setdefault(tuple(opened), []).append(token)
            assert word() == ";"
    assert tokens == []
    return title, clusters, labels, edges


def test_dot_is_well_formed(document):
    title, clusters, labels, edges = read_dot(show.dot_text(document))
    entries = document["entries"]
    assert title == document["title"].replace("\x00", "")
    assert (list(labels) and len(labels) == len(entries)) or not entries
    wanted = [(f"n{p}", f"n{e['index']}") for e in entries for p, _ in e["inputs"] if p >= 0]
    assert sorted(edges) == sorted(wanted)
    place = {node: path for path, nodes in clusters.items() for node in nodes}
    for entry in entries:
        path = place[f"n{entry['index']}"]
        assert (path[-1] if path else "") == entry["module"].replace("\x00", "")
        if entry["leaf"] is None:
            assert entry["op"].replace("\x00", "") in labels[f"n{entry['index']}"]


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_reads_it(document):
    text = show.dot_text(document)
    subprocess.run(["dot", "-Tcanon"], input=text.encode(), check=True, capture_output=True)


# ---- a few lines for a notebook


def test_short_html(document):
    found = show.short_html(document)
    assert len(found) < 2_000
    assert f"{len(document['entries']):,} entries keep " in found
    tags = re.findall(r"</?(\w+)", found)
    assert set(tags) <= {"p", "b", "table", "tr", "th", "td", "code"}
    assert found.count("<") == len(tags)  # what is not a tag is escaped


def test_short_html_names_the_largest_line():
    rows = re.findall(r"<code>(.*?)</code>", show.short_html(gpt(2)))
    assert rows[0] == "model.py:37, in forward" and len(rows) == 5


# ---- JSON


def test_json_is_the_document(document, tmp_path):
    path = show.write_json(document, tmp_path / "tape.json")
    assert path == tmp_path / "tape.json"
    assert json.loads(path.read_text(encoding="utf-8")) == document


def test_paths_come_back(tmp_path):
    writers = (show.write_html, show.write_dot, show.write_json, show.write_perfetto)
    for number, write in enumerate(writers):
        path = write(small(), str(tmp_path / f"file{number}"))
        assert path == tmp_path / f"file{number}" and path.stat().st_size > 500


def test_a_real_tape_writes_itself(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    with torch.tape.record():
        t = torch.tape.of(model(torch.ones(5, 4)).sum())
        document = t.to_dict()
    for name in ("html", "dot", "json", "perfetto"):
        path = getattr(t, name)(tmp_path / name)
        assert path == tmp_path / name and path.stat().st_size > 500
    assert json.loads((tmp_path / "json").read_text(encoding="utf-8")) == t.to_dict()
    read_dot((tmp_path / "dot").read_text(encoding="utf-8"))
    assert show.timeline(document).peak == document["total_bytes"] == t.total_bytes
    packed = _pack(document)
    line = packed["strings"][packed["line"][-1]]
    assert re.fullmatch(r"test_show.py:\d+, in test_a_real_tape_writes_itself", line)
    assert "model(torch.ones(5, 4)).sum()" in packed["source"][line.split(", in ")[0]]
    assert {packed["strings"][name] for name in packed["module"]} == {"", "0", "1", "2"}
    assert t._repr_html_().startswith(f"<p><b>Tape</b>: {len(t)} entries keep ")


# ---- Perfetto


def slices(events, thread):
    """Return (name, start, end, depth) of a track's slices; they must nest."""
    opened, found, now = [], [], 0.0
    for event in events:
        if event["ph"] not in "BE" or event["tid"] != thread:
            continue
        assert event["ts"] >= now
        now = event["ts"]
        if event["ph"] == "B":
            opened.append(event)
        else:
            begun = opened.pop()
            assert begun["name"] == event["name"]
            found.append((begun, begun["ts"], event["ts"], [e["name"] for e in opened]))
    assert opened == []
    return found


def test_trace_slices_nest_and_follow_the_tape(document):
    trace = json.loads(json.dumps(show.trace_events(document)))
    events, entries = trace["traceEvents"], document["entries"]
    threads = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    for track, order in (("forward", 1), ("backward", -1)):
        found = slices(events, threads[track])
        runs = [s for s in found if s[0]["cat"] == "entry"]
        wanted = [e for e in entries if track == "backward" or e["leaf"] is None][::order]
        assert [run[0]["args"]["index"] for run in runs] == [e["index"] for e in wanted]
        for (begun, start, end, around), entry in zip(runs, wanted, strict=True):
            name = entry["op"] if track == "forward" else entry["name"]
            assert begun["name"] == name
            time = entry[f"{track}_us"]
            assert end - start == pytest.approx(1.0 if time is None else time, abs=2e-3)
            names = [part for part in entry["module"].split(".") if part]
            assert around == [".".join(names[: k + 1]) for k in range(len(names))]


def test_trace_counts_live_bytes(document):
    events = show.trace_events(document)["traceEvents"]
    counts = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    live = show.timeline(document)
    recorded = [e["index"] for e in document["entries"] if e["leaf"] is None]
    assert counts == [0, *(live.forward[i] for i in recorded), *live.backward]
    times = [e["ts"] for e in events if e["ph"] == "C"]
    assert times == sorted(times)


def test_trace_says_which_times_are_known():
    assert show.trace_events(gpt(1))["metadata"]["durations"] == "every duration is measured"
    document = gpt(1, times=False)
    count = len(document["entries"])
    leaves = sum(entry["leaf"] is not None for entry in document["entries"])
    metadata = show.trace_events(document)["metadata"]
    assert metadata["unknown_durations"] == {"forward": count - leaves, "backward": count}
    assert "have no time and are drawn with 1 us each" in metadata["durations"]
    assert metadata["peak_live_bytes"] == document["total_bytes"]


# ---- totals


def test_lines_stay_apart():
    lines = [
        "/a/x/net.py:1",
        "/b/x/net.py:1",
        "net.py:1",
        "/b/y/train.py:7, in step",
        "no line",
        "",
    ]
    short = show.short_lines(lines)
    assert list(short.values()) == [
        "a/x/net.py:1",
        "b/x/net.py:1",
        "net.py:1",
        "train.py:7, in step",
        "no line",
        "",
    ]
    assert show.short_lines(["/net.py:1", "net.py:1", "C:\\m\\t.py:3"]) == {
        "/net.py:1": "/net.py:1",
        "net.py:1": "net.py:1",
        "C:\\m\\t.py:3": "t.py:3",
    }


@pytest.mark.parametrize("by", ["module", "line", "op"])
def test_totals_add_up(document, by):
    rows = show.totals(document, by)
    assert sum(size for _, size, _ in rows) == document["total_bytes"]
    assert sum(count for _, _, count in rows) == len(document["entries"])
    assert [size for _, size, _ in rows] == sorted((size for _, size, _ in rows), reverse=True)


def test_the_table_is_short_and_says_what_matters():
    text = show.totals_table(gpt(12))
    lines = text.splitlines()
    assert lines[0] == "662 entries keep 848 MiB; 92.6 ms forward, 97.1 ms backward"
    assert len(lines) < 28 and max(map(len, lines)) < 100
    assert re.search(r"325 MiB   38\.3%      180  blocks\.\*\.attn \(12\)", text)
    assert "model.py:37, in forward" in text and "softmax" in text

"""Every command with awkward inputs: an answer or one clear line, and an exit code of the contract.

The commands run in forks of one Python, under `-X dev -W error`, so that a warning or something
left open is a failure too.
"""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.forked import Forks

CODES = {0, 1, 2, 3, 4}
READER_LEFT = 141
ASK = "-m peerage ask Why? --store sqlite:///closed.db"
SEATS = "".join(
    f'[[seat]]\nname = "{name}"\nprovider = "simulated"\noptions = {{ quality = {quality} }}\n'
    for name, quality in (("a", 8.0), ("b", 7.0), ("c", 6.0))
)
HOSTILE = "[/b]\x1b]52;c;aGk=\x07\x9b2J\u202e\r\b[link=x]"
RESPONSES = [{"model": f"m{i}{HOSTILE}", "response": HOSTILE} for i in (1, 2)]
RANKED = {"ranking": ["Response A", "Response B"]}
BALLOTS = {
    "query": HOSTILE,
    "responses": RESPONSES,
    "label_to_model": {
        "Response A": RESPONSES[0]["model"],
        "Response B": RESPONSES[1]["model"],
    },
    "rankings": [
        {"model": name, "parsed_ranking": RANKED}
        for name in (*(one["model"] for one in RESPONSES), "outsider")
    ],
}
REVIEWS = "session_id,reviewer,candidate,rank,category\n" + "".join(
    f"s{i},{reviewer},{candidate}{HOSTILE!r},{rank},c{HOSTILE!r}\n"
    for i in range(6)
    for reviewer in ("=x", "y", "z")
    for rank, candidate in enumerate(("=a", "-b", "c"), 1)
)
OPINIONS = "item_id,contributor,reviewer,opinion,at\n" + "".join(
    f"=i{i},p{i % 3},r{j},{1 if (i + j) % 3 else -1},{1_772_000_000 + i}\n"
    for i in range(6)
    for j in range(4)
)

EVERY_COMMAND = [
    ["--help"],
    ["--version"],
    [],
    ["score", "ballots.json"],
    ["score", "ballots.json", "--json"],
    ["ask", HOSTILE, "--category", HOSTILE],
    ["ask", HOSTILE, "--quiet"],
    ["ask", HOSTILE, "--json"],
    ["ask", "Ship it?", "--verdict", "binary"],
    ["run", "prompts.jsonl"],
    ["sessions"],
    ["sessions", "--json"],
    ["import", "reviews.csv", "--as", "reviews"],
    ["import", "opinions.csv", "--as", "opinions"],
    ["board", "models", "--since", "all", "--matrix", "--compare-rules", "--by-category"],
    ["board", "models", "--since", "all", "--csv"],
    ["board", "models", "--html", "board.html", "--parquet", "board.parquet"],
    ["board", "items"],
    ["board", "contributors"],
    ["board", "reviewers"],
    ["audit"],
    ["audit", "--html", "audit.html", "--json"],
    ["rings"],
    ["export", "out"],
    ["import", "out", "--store", "sqlite:///other.db"],
    ["doctor"],
]
SHOWN = [["show"], ["show", "--json"], ["replay"], ["audit", "--session"]]

READS_A_FILE = [
    ["score"],
    ["run"],
    ["import", "--as", "reviews"],
    ["import", "--as", "opinions"],
    ["import", "--as", "sessions"],
    ["board", "models", "--reviews"],
    ["audit", "--reviews"],
    ["rings", "--opinions"],
    ["board", "models", "--reviews", "reviews.csv", "--item-weights"],
    ["board", "models", "--reviews", "reviews.csv", "--against"],
    ["sessions", "--config"],
]
AWKWARD_FILES = [
    "folder",
    "missing.json",
    "",
    "binary.json",
    "binary.csv",
    "binary.parquet",
    "deep.json",
    "deep.jsonl",
    "loop.json",
    "/dev/null",
    "\x1b]52;c;aGk=\x07.csv",
    "x" * 300,
    "*.csv",
]
AWKWARD_VALUES = [
    *(["sessions", "--limit", n] for n in (str(10**30), "-1", "0", "nan", "\x1b[2J")),
    *(["ask", "q", "--seed", n] for n in (str(10**30), "-1")),
    *(["ask", "q", "--budget-usd", n] for n in ("-1", "nan", "inf", "1e400")),
    *(["run", "prompts.jsonl", "--concurrency", n] for n in ("0", str(10**30))),
    *(["board", "items", "--half-life", n] for n in ("-1", "0", "nan", "inf", "1e-300")),
    *(["board", "models", "--since", n] for n in ("-1d", f"{10**30}d", "\x1b[2J")),
    *(["audit", "--since", n] for n in ("-1d", f"{10**30}d")),
    *(["rings", "--as-of", n] for n in ("", str(10**30), "\x1b[2J")),
    *(["board", name] for name in ("", "\x1b[2J")),
    *(["show", name] for name in ("", "\x1b[2J", "%")),
    ["ask", "\udcff"],
    ["ask", "q", "--category", "\udcff"],
    ["score", "\udcff.json"],
    ["ask", "q", "--rule", "\x1b[2J"],
    ["audit", "--fail-on", "\x1b[2J"],
    ["\x1b[2J"],
    ["score"],
    ["export", "/"],
    ["export", "reviews.csv"],
    ["sessions", "--store", "sqlite:///folder"],
    ["sessions", "--store", "sqlite:///none/x.db"],
    ["sessions", "--store", "sqlite:///binary.csv"],
    ["sessions", "--store", "\x1b[2J"],
]
WRITES_A_FILE = [
    ["board", "models", "--reviews", "reviews.csv", "--html"],
    ["board", "models", "--reviews", "reviews.csv", "--parquet"],
    ["audit", "--reviews", "reviews.csv", "--html"],
]
AWKWARD_TARGETS = ["/", "folder", "none/x.html", "/proc/x.html", "/dev/full", "", "x" * 300]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every awkward kind, beside good ones."""
    made = tmp_path_factory.mktemp("awkward")
    (made / "peerage.toml").write_text(f"[council]\nseed = 7\n{SEATS}")
    (made / "ballots.json").write_text(json.dumps(BALLOTS))
    (made / "reviews.csv").write_text(REVIEWS)
    (made / "opinions.csv").write_text(OPINIONS)
    (made / "prompts.jsonl").write_text(json.dumps({"id": HOSTILE, "query": HOSTILE}))
    (made / "folder").mkdir()
    (made / "loop.json").symlink_to("loop.json")
    for kind in ("json", "csv", "parquet"):
        (made / f"binary.{kind}").write_bytes(bytes(range(256)) * 50)
    for kind in ("json", "jsonl"):
        (made / f"deep.{kind}").write_text("[" * 100_000)
    return made


@pytest.fixture(scope="module")
def forked(folder):
    """Runs command lines, one after the other; gives (arguments, code, stdout, stderr) of each."""
    kept = ("PATH", "HOME", "PYTHONPATH", "LANG")
    environ = {name: os.environ[name] for name in kept if name in os.environ}

    forks = Forks("-X", "dev", "-W", "error")

    def run(cases):
        cases = [case if isinstance(case, dict) else {"argv": case} for case in cases]
        results = [forks.run(**case, cwd=folder, env=environ) for case in cases]
        return [
            (case["argv"], done.returncode, done.stdout, done.stderr)
            for case, done in zip(cases, results, strict=True)
        ]

    yield run
    forks.close()


def faults(arguments, code, out, err, codes=CODES):
    """What is wrong with how a command ended; how long the event loop took is no fault."""
    said = "\n".join(line for line in err.splitlines() if not line.startswith("Executing <"))
    if code not in codes:
        yield f"{arguments}: exit code {code}: {said[-500:]}"
    for word in ("Traceback", "Warning", "Exception ignored", "never awaited"):
        if word in said:
            yield f"{arguments}: {word}: {said[-500:]}"
    for stream in (out, said):
        hidden = {c for c in stream if c not in "\n\t" and not c.isprintable()}
        if hidden:
            yield f"{arguments}: {hidden} reached the terminal"
    if code == 2 and not said.strip():
        yield f"{arguments}: said nothing"


def all_faults(results, codes=CODES):
    return [fault for result in results for fault in faults(*result, codes=codes)]


@pytest.mark.slow
def test_every_command_is_clean_on_text_that_is_hostile(forked, folder):
    """No warning, nothing left open, no control sequence; and a session can be shown again."""
    results = forked(EVERY_COMMAND)
    assert not all_faults(results)
    assert {code for _, code, *_ in results} <= {0, 1}
    ids = [json.loads(out)["id"] for args, _, out, _ in results if args[::2] == ["ask", "--json"]]
    shown = forked([[*command, *ids] for command in SHOWN])
    assert not all_faults(shown)
    assert [code for _, code, *_ in shown] == [0] * len(SHOWN)
    for page in ("board.html", "audit.html"):
        text = (folder / page).read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert "<script" not in text


def test_no_text_in_csv_output_is_a_formula(forked):
    ((_, code, out, _),) = forked(
        [["board", "models", "--reviews", "reviews.csv", "--since", "all", "--csv"]]
    )
    assert code == 0
    models = [line.partition(",")[0] for line in out.splitlines()[1:]]
    assert len(models) == 3
    assert not [name for name in models if name.lstrip('"').startswith(("=", "-", "+", "@"))]


@pytest.mark.slow
def test_no_file_makes_a_command_fail_without_a_word(forked):
    """Every command and every file, each with some of the others; the slow test has them all."""
    cases = [
        [*command, file]
        for i, command in enumerate(READS_A_FILE)
        for file in AWKWARD_FILES[i % 4 :: 4]
    ]
    assert not all_faults(forked(cases))


@pytest.mark.slow
def test_no_file_makes_any_command_fail_without_a_word(forked):
    cases = [[*command, file] for command in READS_A_FILE for file in AWKWARD_FILES]
    assert not all_faults(forked(cases))


@pytest.mark.parametrize(
    "step", [pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_no_value_makes_a_command_fail_without_a_word(forked, step):
    assert not all_faults(forked(AWKWARD_VALUES[::step]))


@pytest.mark.parametrize(
    "step", [pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_where_output_cannot_be_written_is_said(forked, step):
    """Every command and every place, each with some of the others or with all."""
    cases = [
        [*command, target]
        for i, command in enumerate(WRITES_A_FILE)
        for target in AWKWARD_TARGETS[i % step :: step]
    ]
    results = forked(cases)
    assert not all_faults(results)
    assert [code for _, code, *_ in results] == [2] * len(cases)


def test_a_full_disk_under_stdout_is_said_and_no_success(forked):
    cases = [
        {"argv": command, "stdout": "/dev/full"}
        for command in (
            ["score", "ballots.json"],
            ["score", "ballots.json", "--json"],
            ["board", "models", "--reviews", "reviews.csv", "--csv"],
            ["ask", "Ship it?", "--verdict", "binary"],
            ["sessions"],
            ["doctor"],
            ["--help"],
        )
    ]
    results = forked(cases)
    assert not all_faults(results)
    assert [code for _, code, *_ in results] == [2] * len(cases)


@pytest.mark.parametrize("stdin", ["closed", "binary.json", "deep.json"])
def test_a_stdin_that_gives_nothing_is_said(forked, stdin):
    results = forked([{"argv": [name, "-"], "stdin": stdin} for name in ("score", "ask")])
    assert not all_faults(results)
    assert results[0][1] == 2


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_leaves_is_no_error_and_no_success(folder, more):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-m",
            "peerage",
            "score",
            "ballots.json",
            *more,
        ],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=folder,
        check=False,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == READER_LEFT


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(one, marks=pytest.mark.slow) for one in ("latin-1", "utf-8:strict"))],
)
def test_a_terminal_of_any_encoding_gets_something(folder, encoding):
    for more in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "peerage", "score", "ballots.json", *more],
            capture_output=True,
            cwd=folder,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["scores"][0]["model"] == RESPONSES[0]["model"]


@pytest.mark.slow
def test_a_closed_stdout_or_stderr_never_becomes_a_file(folder):
    for closed, code in ((">&-", 2), ("2>&-", 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$0" {ASK} {closed}', sys.executable],
            capture_output=True,
            cwd=folder,
            check=False,
        )
        assert done.returncode == code, done.stderr
    assert (folder / "closed.db").read_bytes().startswith(b"SQLite format 3")


@pytest.mark.slow
@pytest.mark.needs("local_model")
def test_the_demo_is_clean(folder):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-m", "peerage", "demo", "--no-pause"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert not list(faults(["demo"], done.returncode, done.stdout, done.stderr))


# -- files that are no files, and keys in the place of names ---------------------------------------

KEY = "sk-Abc123Def456Ghi789Jkl"


def test_a_device_that_never_ends_and_a_pipe_without_a_writer_are_told_in_a_sentence(
    peerage, tmp_path
):
    os.mkfifo(tmp_path / "pipe")
    for arguments in (
        ("score", "/dev/zero"),
        ("sessions", "--config", "pipe"),
        ("verify", "/dev/zero"),
        ("gate", "--candidate", "a", "--against", "pipe"),
        ("gate", "--candidate", "a", "--base", "b", "--prereg", "pipe"),
        ("board", "models", "pipe"),
        ("import", "/dev/zero"),
        ("run", "pipe"),
        ("merge", "pipe", "--to", "x"),
    ):
        done = peerage(*arguments)
        said = done.stderr
        assert (done.returncode, said.count("\n")) == (2, 1)
        assert "not a file" in said


def test_a_registered_bar_that_is_a_list_is_told_in_a_sentence(peerage, tmp_path):
    (tmp_path / "bar.json").write_text('{"bar": [1, "a"]}')
    (tmp_path / "r.csv").write_text("session_id,reviewer,candidate,score\ns,r,a,5\ns,r,b,6\n")
    done = peerage("gate", "r.csv", "--base", "b", "--candidate", "a", "--prereg", "bar.json")
    assert done.returncode == 2
    assert "does not contain a registered bar" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_parquet_file_that_unfolds_hugely_is_told_in_a_sentence(peerage, tmp_path):
    n = 60_000
    columns = {"session_id": "s", "reviewer": "r", "candidate": "c", "query": "x" * 20_000}
    table = {
        name: pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([value]))
        for name, value in columns.items()
    }
    pq.write_table(pa.table({**table, "score": [1.0] * n}), tmp_path / "huge.parquet")
    assert (tmp_path / "huge.parquet").stat().st_size < 100_000
    for arguments in (("import", "--as", "reviews"), ("board", "models"), ("run",), ("doctor",)):
        done = peerage(*arguments, "huge.parquet")
        assert (done.returncode, "unfold" in done.stderr) == (2, True), (arguments, done.stderr)


@pytest.mark.parametrize("model", [["l"], {"a": 1}, 7, None])
def test_an_answer_whose_model_is_no_name_is_told_in_a_sentence(peerage, panel, tmp_path, model):
    panel([{"name": name, "provider": "simulated"} for name in "abc"])
    answers = [{"model": model, "response": "t"}, {"model": "b", "response": "u"}]
    (tmp_path / "p.jsonl").write_text(json.dumps({"query": "q", "answers": answers}) + "\n")
    done = peerage("run", "p.jsonl")
    said = done.stderr
    assert (done.returncode, said.count("\n")) == (2, 1)
    assert "row 1" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "q", "--rule", KEY),
        ("ask", "q", "--rubric", KEY),
        ("ask", "q", "--seats", KEY),
        ("ask", "q", "--chair", KEY),
        ("sessions", "--store", f"sqlite:///{KEY}/x.db"),
        ("sessions", "--store", f"postgresql://u:{KEY}@127.0.0.1:1/db"),
        ("show", KEY),
        ("replay", "x", "--rule", KEY),
        ("board", "models", "--rule", KEY),
        ("board", "models", "--reviews", KEY),
        ("ask", "q", f"--{KEY}"),
        ("ask", "q", "--budget-usd", KEY),
        ("board", "models", KEY),
        ("token", "create", "--name", "n", "--scope", KEY),
        (KEY,),
    ],
    ids=lambda arguments: " ".join(arguments).replace(KEY, "KEY"),
)
def test_a_key_on_the_command_line_is_neither_repeated_nor_stored(
    peerage, panel, tmp_path, arguments
):
    panel([{"name": name, "provider": "simulated"} for name in "abc"])
    done = peerage(*arguments)
    assert done.returncode == 2
    assert KEY not in done.stdout + done.stderr
    assert not any(KEY.encode() in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())


@pytest.mark.parametrize("field", ["name", "model", "base_url"])
def test_a_key_in_a_seat_is_neither_repeated_nor_stored(peerage, panel, tmp_path, field):
    value = f"https://x.example/{KEY}" if field == "base_url" else KEY
    seats = [{"name": name, "provider": "simulated"} for name in "abc"]
    panel([{**seats[0], field: value}, *seats[1:]])
    for arguments in (("ask", "q"), ("doctor",)):
        done = peerage(*arguments)
        assert done.returncode != 0
        assert KEY not in done.stdout + done.stderr
    stored = [one for one in tmp_path.rglob("*") if one.is_file() and one.suffix != ".toml"]
    assert not any(KEY.encode() in one.read_bytes() for one in stored)

"""A stored run is judged again only when its history is whole; otherwise its reports stay as they are."""

import json

import pytest

from chaos.errors import UsageError
from chaos.reports import write_all
from chaos.reports.recheck import recheck


@pytest.fixture
def stored(tmp_path, realistic, run):
    """A folder of results, and a function that changes its history line by line."""
    lines = [json.dumps(entry) for entry in realistic.history.entries]
    (tmp_path / "history.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.json").write_text(json.dumps(run))
    write_all(tmp_path, realistic.history, realistic.verdicts, run)
    return tmp_path


def changed(folder, change):
    file = folder / "history.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    change(lines)
    file.write_text("".join(lines))


def reports(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.name not in ("history.jsonl", "run.json")}


def renamed(lines):
    lines[:] = [line.replace('"FT-2"', '"ZZ-9"') for line in lines]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(list.clear, "has no experiment", id="empty"),
        pytest.param(lambda lines: lines.pop(2), "line 3 is entry 3, not 2", id="a line less"),
        pytest.param(lambda lines: lines.insert(2, lines[1]), "line 3 is entry 1, not 2", id="a line twice"),
        pytest.param(renamed, "is about ZZ-9", id="another claim"),
    ],
)
def test_what_is_not_whole_is_refused_and_the_reports_stay(stored, change, named):
    before = reports(stored)
    changed(stored, change)
    with pytest.raises(UsageError, match=named):
        recheck(stored)
    assert reports(stored) == before


def test_a_last_line_that_was_cut_off_is_left_out_and_told(stored):
    file = stored / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    said = []
    recheck(stored, said.append)
    assert said == ["the last line of the history was cut off, as by the end of a run that was killed; it is left out"]


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"versions": 5}', "[" * 100000], ids=range(5))
def test_a_folder_whose_run_can_not_be_read_is_none_of_results(stored, content):
    before = reports(stored)
    (stored / "run.json").write_text(content)
    with pytest.raises(UsageError, match=r"run\.json"):
        recheck(stored)
    assert reports(stored) == before

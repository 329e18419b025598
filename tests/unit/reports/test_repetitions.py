"""Reports of repeated experiments: rates beside verdicts, in every form, and again from the history alone."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from chaos.checks import functional_twice, head_recovery, workers_survived
from chaos.console import Console
from chaos.judge import judge
from chaos.reports import html, junit, summary, write_all
from chaos.reports.recheck import recheck
from chaos.verdict import Judgement, Outcome
from chaos.versions.table import Table
from tests.unit.reports.conftest import RUN, WHERE


@pytest.fixture
def repeated(story):
    """One experiment three times: the head's loss is survived, not survived, and not judged."""
    expected = [check.as_json() for check in (workers_survived(**WHERE), head_recovery(**WHERE, within=60))]
    for number, start in enumerate((0, 150, 300), 1):
        story.chapter(f"test_it#{number}", start)
        story.head_loss(("FT-2", "delete"))
        if number == 2:
            story.pod(30, "w1", "uid-w1", "worker", "DELETED")
        if number == 3:
            story.phase("error", 128, error="the probe could not be started")
        control = {"arm": "no-ft", "checks": [functional_twice(namespace="ns", cluster="none").as_json()]}
        story.add("expect", 129, claim="FT-2", arm="delete", checks=expected, control=control if number == 3 else None)
    return story.all()


@pytest.fixture
def verdicts(repeated):
    return judge(repeated, table=Table.load(), versions=RUN["versions"])


def told(verdicts):
    return [(v.experiment, v.repetition, v.arm, str(v.verdict)) for v in verdicts]


def test_each_repetition_is_judged_by_itself(verdicts):
    assert told(verdicts) == [
        ("test_it", 1, "delete", "holds"),
        ("test_it", 2, "delete", "broken"),
        ("test_it", 3, "delete", "unknown"),
        ("test_it", 3, "no-ft", "unknown"),
    ]


def test_rates_are_a_file_beside_the_verdicts_which_keep_their_keys(tmp_path, repeated, verdicts, run):
    write_all(tmp_path, repeated, verdicts, run)
    stored = json.loads((tmp_path / "verdicts.json").read_text())
    for entry in stored:
        assert {"claim", "experiment", "arm", "verdict", "reason", "evidence", "recovery_seconds"} <= entry.keys()
    assert [entry["repetition"] for entry in stored] == [1, 2, 3, 3]
    first, control = json.loads((tmp_path / "rates.json").read_text())
    assert (first["holds"], first["judged"], first["unknown"], first["repetitions"]) == (1, 2, 1, 3)
    assert first["recovery_seconds"]["functional"]["n"] == 2, "of the one that was not judged no time counts"
    assert (control["role"], control["rate"]) == ("control", None)
    assert 'href="./rates.json"' in (tmp_path / "report.html").read_text()


def test_what_ran_once_has_no_rates(tmp_path, realistic, run):
    write_all(tmp_path, realistic.history, realistic.verdicts, run)
    assert not (tmp_path / "rates.json").exists()
    assert "Rates" not in (tmp_path / "report.html").read_text()
    assert "95 % interval" not in (tmp_path / "summary.md").read_text()
    assert {entry["repetition"] for entry in json.loads((tmp_path / "verdicts.json").read_text())} == {None}


def test_the_stored_run_is_judged_again_repetition_by_repetition(tmp_path, repeated, verdicts, run):
    lines = [json.dumps(entry) for entry in repeated.entries]
    (tmp_path / "history.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.json").write_text(json.dumps(run))
    write_all(tmp_path, repeated, verdicts, run)
    first = {path.name: path.read_text() for path in tmp_path.iterdir()}
    again, code = recheck(tmp_path)
    assert told(again) == told(verdicts)
    assert code == 1, "the worst of all"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == first


def test_junit_has_a_case_a_repetition(verdicts):
    root = ET.fromstring(junit.render(verdicts))
    (suite,) = root
    assert suite.get("name") == "test_it"
    assert [case.get("name") for case in suite] == [
        "FT-2 [delete] repetition 1",
        "FT-2 [delete] repetition 2",
        "FT-2 [delete] repetition 3",
        "FT-2 [no-ft] (control) repetition 3",
    ]
    assert [case[0].tag for case in suite] == ["system-out", "failure", "error", "error"]


def rows(text):
    return [line for line in text.splitlines() if line.startswith(("| ✓", "| ✗", "| ?"))]


def test_the_summary_has_rates_and_then_the_repetitions_that_did_not_hold(verdicts, run):
    text = summary.render(verdicts, run)
    assert text.startswith("## Broken, new finding: FT-2 in test\\_it, repetition 2 (delete): ")
    rate, control, *bad = rows(text)
    assert rate.startswith("| ✗ holds 1 of 2, 1 unknown | 9 to 91 % | **FT-2** ")
    assert rate.endswith("| ready 15.4 s (15.4 to 15.4; n 2)<br>functional 17.2 s (17.2 to 17.2; n 2) |")
    assert control.startswith("| ? none judged, 1 unknown |  | **FT-2** Control")
    assert ["repetition 2" in bad[0], "repetition 3" in bad[1], "repetition 3" in bad[2]] == [True] * 3
    assert len(bad) == 3
    assert "A rate is of the repetitions that were judged" in text


def test_a_summary_of_repetitions_that_all_hold_is_their_rates(verdicts, run):
    text = summary.render([replace(verdicts[0], repetition=number) for number in (1, 2)], run)
    (rate,) = rows(text)
    assert rate.startswith("| ✓ holds 2 of 2 | 34 to 100 % |")


def test_the_page_has_rates_and_a_section_and_verdicts_for_each_repetition(repeated, verdicts, run):
    page = html.render(repeated, verdicts, run)
    assert page.index('<h2 id="rates">') < page.index('<h2 id="verdicts">')
    assert "holds 1 of 2, 1 unknown" in page
    assert "<td>9 to 91 %</td>" in page
    assert '<th scope="row">functional</th><td><b>17.2 s</b></td><td>17.2</td><td>–</td><td>17.2</td><td>2</td>' in page
    for number in (1, 2, 3):
        assert f"<summary>test_it, repetition {number}" in page
    assert page.count('<span class="soft small">repetition 3</span>') == 2


def test_many_repetitions_have_a_95th_percentile(repeated, verdicts, run):
    times = [replace(verdicts[0], recovery_seconds={"functional": float(number)}) for number in range(1, 21)]
    page = html.render(repeated, times, run)
    assert "<td><b>10.5 s</b></td><td>1.0</td><td>19.0</td><td>20.0</td><td>20</td>" in page


def test_the_closing_table_has_a_row_a_claim_and_arm_and_a_reason_a_repetition(verdicts, capsys):
    known = replace(verdicts[1], judgement=Judgement.KNOWN_DEFECT, reference="k#1")
    Console(live=False).table([verdicts[2], verdicts[0], known])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "BROKEN   FT-2   test_it [delete]  holds 1 of 2, 1 unknown  (9 to 91 %)  (known defect k#1)  "
        "ready 15.4 s (15.4 to 15.4; n 2), functional 17.2 s (17.2 to 17.2; n 2)"
    )
    assert lines[1].startswith("FT-2 [delete] repetition 2 broken: ")
    assert lines[2].startswith("FT-2 [delete] repetition 3 unknown: ")
    assert lines[3:] == ["3 verdicts: 1 holds, 1 broken, 1 unknown"]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_in_a_terminal_holds_the_same(verdicts, monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    Console(live=True).table([replace(verdicts[0], repetition=number) for number in range(1, 4)])
    drawn = " ".join(capsys.readouterr().out.split())
    for part in ("holds 3", "of 3", "44 to", "100 %", "functional"):
        assert part in drawn
    assert Outcome.UNKNOWN not in drawn.rpartition("verdicts:")[0]


def test_what_was_left_to_other_shards_is_in_the_summary_and_on_the_page(repeated, verdicts, run):
    shards = ["shard 1/2: 1 of 2 experiments, which take about 60 s of 120 s", "left to shard 2/2: other_one"]
    text = summary.render(verdicts, {**run, "shards": shards})
    assert "left to shard 2/2: other\\_one" in text
    page = html.render(repeated, verdicts, {**run, "shards": shards})
    assert "<dt>Shard</dt><dd>shard 1/2: 1 of 2 experiments" in page
    assert "<dd>left to shard 2/2: other_one</dd>" in page

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chaos.reports import html, junit, summary, write_all
from chaos.reports.ranking import Standing, counts, headline, worst_first
from chaos.reports.timeline import timeline
from chaos.verdict import Judgement, Outcome, Role, Verdict


def verdict(outcome="holds", judgement="", **more):
    given = {"claim": "FT-2", "experiment": "test_it", "arm": "delete", "reason": "seen"} | more
    return Verdict(verdict=Outcome(outcome), judgement=Judgement(judgement), **given)


NEW = verdict("broken", "new finding", reason="w1 lost")
KNOWN = verdict("broken", "known defect", reference="ray-project/kuberay#1")
UNKNOWN = verdict("unknown")
HOLDS = verdict("holds", "as documented")
NOT_APPLICABLE = verdict("unknown", "not applicable")
ALL = [HOLDS, NOT_APPLICABLE, UNKNOWN, KNOWN, NEW]


def test_the_worst_is_first_and_all_are_counted():
    assert worst_first(ALL) == [NEW, KNOWN, UNKNOWN, HOLDS, NOT_APPLICABLE]
    assert list(counts(ALL).values()) == [1, 1, 1, 1, 1]
    control = replace(HOLDS, role=Role.CONTROL)
    assert worst_first([control, HOLDS]) == [HOLDS, control]


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (ALL, "Broken, new finding: FT-2 in test_it (delete): w1 lost."),
        ([HOLDS, NOT_APPLICABLE], "Every claim that was tested holds."),
        ([NOT_APPLICABLE], "No claim that was asked for is offered by these versions."),
        ([], "No verdict: nothing was shown."),
    ],
)
def test_the_headline(verdicts, sentence):
    assert headline(verdicts) == sentence
    assert headline(verdicts, interrupted=True) == f"Interrupted. {sentence}"


def test_all_is_written_and_verdicts_come_back(tmp_path, realistic, run):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "head #1.log").write_text("x")
    write_all(tmp_path, realistic.history, realistic.verdicts, run)
    stored = json.loads((tmp_path / "verdicts.json").read_text())
    assert [(v["claim"], v["verdict"]) for v in stored] == [(v.claim, v.verdict) for v in realistic.verdicts]
    assert len(stored) == 6
    page = (tmp_path / "report.html").read_text()
    assert 'href="./logs/head%20%231.log"' in page
    assert 'href="./verdicts.json"' in page


def test_reports_can_be_made_again(tmp_path, realistic, run):
    write_all(tmp_path, realistic.history, realistic.verdicts, run)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_all(tmp_path, realistic.history, realistic.verdicts, run)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


# --- JUnit -----------------------------------------------------------------------------------------------------------


def test_junit_has_a_suite_an_experiment_and_a_case_a_verdict(realistic):
    root = ET.fromstring(junit.render(realistic.verdicts))
    suites = {suite.get("name"): [case.get("name") for case in suite] for suite in root}
    assert suites["test_head_loss_without_ft"] == [
        "FT-1 [delete]",
        "FT-1 [with fault tolerance] (control)",
        "FT-2 [delete]",
    ]


def test_junit_outcomes():
    root = ET.fromstring(junit.render(ALL))
    kinds = [[(child.tag, child.get("type")) for child in case] for case in root.iter("testcase")]
    assert kinds == [
        [("system-out", None)],
        [("skipped", None)],
        [("error", "unknown")],
        [("failure", "known defect")],
        [("failure", "new finding")],
    ]
    assert [root.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "2", "1", "1"]


def test_junit_survives_what_logs_hold():
    nasty = replace(NEW, reason='\x1b[31m\x00 ]]> <b> & "\ud800')
    (case,) = ET.fromstring(junit.render([nasty])).iter("testcase")
    assert case[0].get("message") == '\ufffd[31m\ufffd ]]> <b> & "\ufffd'


# --- Markdown --------------------------------------------------------------------------------------------------------


def test_the_summary_leads_with_the_worst(realistic, run):
    text = summary.render(realistic.verdicts, run)
    lines = text.splitlines()
    assert lines[0].startswith("## Broken, new finding: OP-2 in test")
    assert "kuberay 1.6.2" in text
    assert f"    {run['command']}" in lines
    assert lines.index(next(line for line in lines if "OP-2" in line and line.startswith("|"))) == 8


def test_the_summarys_cells_stay_cells():
    text = summary.render([replace(NEW, reason="a | b\n<img src=x> `c`")], {})
    (row,) = [line for line in text.splitlines() if line.startswith("| ✗ broken")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 6
    assert "<img" not in text


# --- timeline --------------------------------------------------------------------------------------------------------


def lanes(view):
    return {(lane.label, lane.detail): lane for lane in timeline(view).lanes}


def test_a_replaced_head_stays_in_its_lane_with_a_tick(realistic):
    head = lanes(realistic.history.experiment("test_head_deletion"))["head", "h2"]
    assert [box.kind for box in head.boxes] == ["ready", "terminating", "pending", "not-ready", "ready"]
    assert [tick.kind for tick in head.ticks] == ["uid"]
    assert "uid-h2" in head.ticks[0].title


def test_a_restart_in_place_is_a_tick_with_its_exit_code(realistic):
    worker = lanes(realistic.history.experiment("test_head_loss_without_ft"))["worker", "w1"]
    assert [box.kind for box in worker.boxes] == ["ready", "not-ready", "down", "not-ready", "ready"]
    assert [tick.kind for tick in worker.ticks] == ["restart"]
    assert "exit code 1" in worker.ticks[0].title


def test_the_outage_is_what_a_client_saw(realistic):
    probes = lanes(realistic.history.experiment("test_head_deletion"))["probe functional", "c1"]
    assert [box.text for box in probes.outages] == ["19.2 s"]  # 18.0, the last success, to 37.2


def test_a_stall_is_drawn_as_one_though_no_call_failed(story):
    story.head_loss()
    for t, stall in ((19, 0), (30, 10), (40, 20), (41, 0)):
        story.probe("held-connection", t, took=stall, target={"name": "beside"}, value={"stall": stall, "error": None})
    lane = lanes(story.view())["probe held-connection", "beside"]
    assert [dot.ok for dot in lane.dots] == [True, False, False, True]
    assert [box.text for box in lane.outages] == ["22.0 s"]


def test_other_experiments_pods_are_not_drawn(realistic):
    found = lanes(realistic.history.experiment("test_operator_kill"))
    assert [label for label, _ in found] == ["RayJob", "submitter", "operator"]


def test_a_fault_reaches_from_apply_to_undone(realistic):
    drawn = timeline(realistic.history.experiment("test_head_loss_without_ft"))
    kill, hole = [label for label in drawn.labels if label.kind == "fault"]
    assert (kill.text, hole.text) == ("head deleted: h1 (ns)", "pod cut off")
    scale = 1000 / (130 - 5)  # the picture begins 15 s before the fault, at 5 s
    assert hole.x == pytest.approx((90 - 5) * scale, abs=0.1)
    assert hole.width == pytest.approx(15 * scale, abs=0.2)


def two_arms(story):
    """Two clusters of one name, in a namespace each, as experiments make them; both lose their heads."""
    story.phase("begin", 5, claims=[])
    for arm, back in (("ft", 40), ("no-ft", 60)):
        where = {"namespace": f"chaos-test-it-{arm}", "cluster": "c1"}
        for t, role, change in ((1, "head", "ADDED"), (1, "worker", "ADDED"), (20.1, "head", "DELETED")):
            story.pod(t, f"{role}-{arm}", f"uid-{role}-{arm}", role, change, within=where["namespace"])
        target = {"namespace": where["namespace"], "pod": f"head-{arm}", "uid": f"uid-head-{arm}"}
        story.step("delete-pod", "apply", 20, target)
        story.entries[-1]["id"] += arm
        for t in (10, 30, back):
            story.probe("functional", t, ok=t != 30, target=where)
    for number in range(3):
        story.pod(1, f"redis-{number}", f"uid-redis-{number}", "redis", "ADDED")
    story.pod(1, "op", "uid-op", "operator", "ADDED")
    story.pod(1, "late", "uid-late", "head", "ADDED", within="chaos-test-before-ft")
    story.phase("observe", 65, seconds=20, why="a second look")
    story.phase("mark", 66)
    story.end(100)
    return timeline(story.view())


def test_lanes_are_grouped_by_arm_and_each_cluster_has_its_own_probe_lane(story):
    drawn = two_arms(story)
    assert [group.name for group in drawn.groups] == ["ft", "no-ft", "shared by all arms"]
    for group, gap in zip(drawn.groups, ("30.0 s", "50.0 s"), strict=False):
        assert [lane.label for lane in group.lanes] == ["head", "worker", "probe functional"]
        assert [box.text for box in group.lanes[-1].outages] == [gap]


def test_what_is_shared_and_quiet_is_one_lane(story):
    shared = two_arms(story).groups[-1]
    assert [(lane.label, lane.detail) for lane in shared.lanes] == [
        ("operator", "op"),
        ("Redis", "redis-0, redis-1, redis-2"),
    ]


def test_faults_and_windows_are_told_in_words_and_bookmarks_are_not_drawn(story):
    drawn = two_arms(story)
    assert [(label.kind, label.text) for label in drawn.labels] == [
        ("fault", "head deleted: head-ft (ft)"),
        ("fault", "head deleted: head-no-ft (no-ft)"),
        ("window", "watched: a second look, 20 s"),
    ]
    assert [label.row for label in drawn.labels] == [0, 1, 0]
    window = drawn.labels[-1]
    assert window.width == pytest.approx(20 * 1000 / 95, abs=0.2)


def test_a_fault_that_is_held_is_a_window_too(story):
    story.head_loss()
    target = {"pod": "h2", "uid": "uid-h2"}
    story.step("partition", "apply", 70, target)
    story.step("partition", "hold", 71, target, seconds=30.0)
    story.step("partition", "undone", 101, target)
    windows = [label.text for label in timeline(story.view()).labels if label.kind == "window"]
    assert windows == ["held: head cut off, 30 s"]


def test_labels_that_are_close_stand_in_rows_of_their_own(story):
    story.head_loss()
    for number in range(12):
        story.step(f"fault-{number}", "apply", 30 + number / 10)
    drawn = timeline(story.view())
    assert drawn.label_rows == 8
    first = [label for label in drawn.labels if label.row == 0]
    assert all(a.text_x + 6 * len(a.text) <= b.text_x for a, b in itertools.pairwise(first))


def test_an_unknown_without_evidence_says_where_to_look(story, run):
    story.head_loss()
    assert "logs/chaos-test-it-*" in html.render(story.all(), [UNKNOWN], run)
    assert "logs/chaos-test-it-*" in junit.render([UNKNOWN])
    assert r"logs/chaos-test-it-\*" in summary.render([UNKNOWN], run)


def test_recovery_is_in_the_order_of_time_and_brief_in_tables(story, run):
    story.head_loss()
    steps = {"functional": 45.4, "old_gone": 0.1, "ready": 35.6}
    some = [replace(HOLDS, recovery_seconds=steps)]
    assert "old gone 0.1 s, ready 35.6 s, functional 45.4 s" in junit.render(some)
    (row,) = [line for line in summary.render(some, run).splitlines() if line.startswith("| ✓")]
    assert row.endswith("| ready 35.6 s, functional 45.4 s |")
    assert "All steps: old gone 0.1 s, ready 35.6 s, functional 45.4 s" in html.render(story.all(), some, run)


def test_arms_and_controls_are_explained_and_quiet_controls_are_one_line(story, run):
    story.head_loss()
    control = replace(HOLDS, role=Role.CONTROL, arm="no-ft")
    assert "A control is an arm" in html.render(story.all(), [HOLDS, control], run)
    text = summary.render([HOLDS, control], run)
    assert "Controls that saw the opposite, as they must: FT-2 in test\\_it (no-ft)." in text
    assert sum(line.startswith("| ✓") for line in text.splitlines()) == 1


def test_what_is_over_the_limit_is_dropped_and_counted(realistic):
    view = realistic.history.experiment("test_head_deletion")
    whole = timeline(view)
    part = timeline(view, limit=5)
    assert whole.dropped == 0
    assert (part.size(), part.dropped) == (5, whole.size() - 5)


# --- HTML ------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What the tests look for in a page: tags, attributes and whether the tags nest."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.open, self.urls = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        self.urls += [
            value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action", "data")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def page(realistic, run):
    return html.render(realistic.history, realistic.verdicts, run, files=["history.jsonl"])


def test_the_page_is_small_self_contained_and_well_nested(page):
    assert len(page.encode()) < html.MAX_BYTES
    assert "://" not in page
    found = Page(page)
    assert found.open == []
    assert all(url.startswith(("#", "./")) for url in found.urls)
    assert "default-src 'none'" in page


def test_every_link_within_the_page_has_its_target(page):
    found = Page(page)
    assert len(set(found.ids)) == len(found.ids)
    inner = {link[1:] for link in found.links if link.startswith("#")}
    assert inner <= set(found.ids)
    assert sum("-e" in link for link in inner) > 10


def test_failures_are_open_and_passes_closed(page):
    cells = re.findall(r'<tr class="([\w-]+)">.*?<details( open)?>', page, re.DOTALL)
    assert ("broken-new-finding", " open") in cells
    assert ("holds", "") in cells
    assert all((opened == "") == (place in ("holds", "not-applicable")) for place, opened in cells)


def test_the_banner_says_what_was_run(page, run):
    top = page[page.index("<header>") : page.index("</header>")]
    for text in ("OP-2 in test_operator_kill", "kuberay 1.6.2", "20270115", run["command"], "2027-01-15 08:00:00 UTC"):
        assert text in top


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><b>"])
def test_nothing_from_a_history_becomes_markup(story, run, nasty):
    story.head_loss()
    for entry in story.entries:
        for key in ("name", "fault", "error"):
            if entry.get(key):
                entry[key] += nasty
    story.rayjob(8, nasty)
    bad = [replace(NEW, reason=nasty, arm=nasty, claim=nasty, reference=nasty)]
    clean = html.render(story.all(), [NEW], run)
    dirty = html.render(story.all(), bad, {**run, "command": nasty, "versions": {nasty: nasty}}, files=[nasty])
    assert nasty not in dirty
    assert Page(dirty).tags.count("script") == Page(clean).tags.count("script") == 1
    assert Page(dirty).tags.count("img") == 0


OWN = {
    "kind": "RayCluster", "name": "mine", "file": "/home/me/mine.yaml", "beside": ["Secret token"], "left_out": ["Pod <x>"],
    "changes": [{"path": "spec.a[b]", "from": "", "to": "2|3", "why": "what the machine carries"},
                {"path": "spec.<c>", "from": "old", "to": "", "why": "none is here"}],
}  # fmt: skip


def test_what_was_made_of_a_users_manifest_is_in_the_page_and_the_summary(realistic, run):
    run = {**run, "own": [OWN]}
    page = html.render(realistic.history, realistic.verdicts, run)
    for text in ("RayCluster mine", "/home/me/mine.yaml", "Secret token", "Pod &lt;x&gt;", "spec.&lt;c&gt;",
                 "<td>(not set)</td><td>2|3</td>", "<td>old</td><td>(removed)</td>"):  # fmt: skip
        assert text in page
    text = summary.render(realistic.verdicts, run)
    assert r"| spec.a\[b\] | (not set) | 2\|3 | what the machine carries |" in text
    assert "| spec.&lt;c&gt; | old | (removed) | none is here |" in text
    assert "Left out: Pod &lt;x&gt;." in text


def test_a_huge_history_is_cut_and_says_so(story, run):
    story.head_loss()
    for number in range(3000):
        story.pod(50 + number / 40, f"w{number}-{'x' * 60}", f"uid-{number}", "worker", "ADDED")
    page = html.render(story.all(), [NEW], run)
    assert len(page.encode()) < html.MAX_BYTES
    assert "elements were left out" in page


def test_an_empty_run_has_a_page_too(run):
    from chaos.history.reader import History

    assert "No verdict" in html.render(History([]), [], run)


def test_standings_are_covered():
    assert dict.fromkeys(counts(ALL)) == dict.fromkeys(Standing)

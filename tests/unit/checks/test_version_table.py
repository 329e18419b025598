from __future__ import annotations

import pytest

from chaos import cli
from chaos.errors import UsageError
from chaos.versions.table import Kind, Table, faults

TABLE = Table.load()
KNOWN_BAD = [
    ("OP-12", "head deleted", {"kuberay": "1.5.0", "ray": "2.60.0"}),
    ("FT-18", "autoscaler v2", {"kuberay": "1.4.0", "ray": "2.46.0"}),
    ("OP-6", "submitter killed", {"kuberay": "1.2.2", "ray": "2.60.0"}),
    ("OP-14", "old CRDs", {"kuberay": "1.1.0"}),
    ("FT-16", "refused", {"kuberay": "1.0.0"}),
]
SURVIVED = [
    ("OP-12", "head deleted", {"kuberay": "1.6.2", "ray": "2.60.0"}),
    ("FT-18", "autoscaler v2", {"kuberay": "1.4.0", "ray": "2.60.0"}),
    ("FT-18", "autoscaler v2", {"kuberay": "1.4.2", "ray": "2.46.0"}),
    ("OP-6", "submitter killed", {"kuberay": "1.6.2"}),
    ("OP-14", "CRDs first", {"kuberay": "1.6.2"}),
    ("FT-16", "refused", {"kuberay": "1.1.0"}),
]


@pytest.mark.parametrize(("claim", "arm", "versions"), KNOWN_BAD)
def test_known_bad_versions_have_a_row(claim, arm, versions):
    row = TABLE.row_for(claim, arm, versions)
    assert row is not None
    assert row.kind is Kind.DEFECT
    assert row.reference


@pytest.mark.parametrize(("claim", "arm", "versions"), SURVIVED)
def test_versions_where_the_same_fault_is_survived_have_none(claim, arm, versions):
    assert TABLE.row_for(claim, arm, versions) is None


def test_every_component_of_a_row_must_be_known():
    assert TABLE.row_for("FT-18", "autoscaler v2", {"kuberay": "1.4.0"}) is None
    assert TABLE.row_for("OP-6", "any", {"kuberay": "nightly"}) is None


GOOD = "claim: FT-1\n  versions: {ray: '<2'}\n  kind: allowed\n  expected: Both."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("FT-1", "FT-99"), "no such claim"),
        (("ray", "rai"), "component 'rai'"),
        (("'<2'", "'about 2'"), "no version range"),
        (("'<2'", "''"), "range of ray is empty"),
        (("{ray: '<2'}", "{}"), "no mapping"),
        (("allowed", "permitted"), "kind 'permitted'"),
        (("allowed", "defect"), "needs a reference"),
        (("Both.", "''"), "expected is empty"),
        (("kind: allowed", "note: x"), "missing fields"),
        (("kind: allowed", "kind: allowed\n  arm: x"), "unknown fields"),
        (("kind: allowed", "kind: allowed\n  arms: x"), "arms"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, message):
    path = tmp_path / "table.yaml"
    path.write_text(f"- {GOOD}\n- {GOOD.replace(*change)}\n")
    with pytest.raises(UsageError, match="row 2") as error:
        Table.load(path)
    assert message in str(error.value)


@pytest.mark.parametrize("content", ["a: 1", "- 1", "- [", None])
def test_what_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "table.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError):
        Table.load(path)


def test_every_fault_of_a_table_is_one_line(tmp_path):
    table = tmp_path / "table.yaml"
    rows = [GOOD, GOOD.replace("FT-1", "FT-99"), GOOD.replace("ray", "redys"), GOOD, GOOD.replace("<2", "<3")]
    table.write_text("".join(f"- {row}\n" for row in rows))
    found, number = faults(table)
    assert number == 5
    assert ["row 2" in found[0], "row 3" in found[1], "row 4" in found[2]] == [True] * 3
    assert len(found) == 3
    assert all("\n" not in fault for fault in found)
    assert "never reached" in found[2]


def test_the_table_that_comes_with_the_package_has_no_fault():
    assert faults() == ([], len(TABLE.rows))


def test_a_table_that_is_no_yaml_names_the_line(tmp_path):
    table = tmp_path / "table.yaml"
    table.write_text("- claim: FT-1\n  kind: [\n")
    with pytest.raises(UsageError, match="line 3"):
        faults(table)


def test_the_command_says_each_fault_and_exits_with_1(tmp_path, capfd):
    table = tmp_path / "table.yaml"
    table.write_text(f"- {GOOD.replace('FT-1', 'FT-99')}\n")
    assert cli.main(["versions", "check", str(table)]) == 1
    assert "no such claim" in capfd.readouterr().out
    assert cli.main(["versions", "check"]) == 0
    assert cli.main(["versions", "check", str(tmp_path / "none")]) == 3

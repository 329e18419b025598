"""``junit.xml``, made from verdicts and not from pytest's reports, so that a stored history gives it again.

One suite an experiment, one case a (claim, arm) and repetition. Broken is a failure, whose type is the judgement; unknown is an
error, never a skip; what the versions don't offer is skipped.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from chaos.reports.ranking import (
    Standing,
    claim_text,
    counts,
    reasons,
    recovery_text,
    standing,
    undecided,
    where_to_look,
)
from chaos.verdict import Role, Verdict

# What XML 1.0 can't hold, escaped or not. Reasons quote logs, and logs hold anything.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(verdicts: Sequence[Verdict]) -> str:
    """The XML document."""
    root = ET.Element("testsuites", {"name": "kuberay-chaos", **_totals(verdicts)})
    for experiment in dict.fromkeys(verdict.experiment for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.experiment == experiment]
        suite = ET.SubElement(root, "testsuite", {"name": _clean(experiment), **_totals(mine)})
        for verdict in mine:
            _case(suite, verdict)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _totals(verdicts: Sequence[Verdict]) -> dict[str, str]:
    found = counts(verdicts)
    return {
        "tests": str(len(verdicts)),
        "failures": str(found[Standing.NEW_FINDING] + found[Standing.KNOWN_DEFECT]),
        "errors": str(found[Standing.UNKNOWN]),
        "skipped": str(found[Standing.NOT_APPLICABLE]),
    }


def _case(suite: ET.Element, verdict: Verdict) -> None:
    control = " (control)" if verdict.role is Role.CONTROL else ""
    repetition = f" repetition {verdict.repetition}" if verdict.repetition else ""
    name = f"{verdict.claim} [{verdict.arm}]{control}{repetition}"
    case = ET.SubElement(suite, "testcase", classname=_clean(verdict.experiment), name=_clean(name))
    reason = _clean(verdict.reason)
    match standing(verdict):
        case Standing.NEW_FINDING | Standing.KNOWN_DEFECT:
            body = ET.SubElement(case, "failure", message=reason, type=str(verdict.judgement))
            body.text = _clean(_body(verdict))
        case Standing.UNKNOWN:
            body = ET.SubElement(case, "error", message=reason, type="unknown")
            body.text = _clean(_body(verdict))
        case Standing.NOT_APPLICABLE:
            ET.SubElement(case, "skipped", message=reason)
        case Standing.HOLDS:
            ET.SubElement(case, "system-out").text = _clean(_body(verdict))


def _body(verdict: Verdict) -> str:
    lines = [claim_text(verdict), *reasons(verdict)]
    if verdict.reference:
        lines.append(f"see {verdict.reference}")
    if recovery := recovery_text(verdict):
        lines.append(f"recovery, after the fault: {recovery}")
    if undecided(verdict):
        lines.append(f"no entry of the history decides this; where to look: {where_to_look(verdict)}, report.html")
    lines += [f"history entry {item.entry} at {item.at:.1f} s: {item.shows}" for item in verdict.evidence]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)

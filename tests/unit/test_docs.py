"""What the documents name is there: linked files and headings, commands with their options, make's targets, paths, faults."""

import argparse
import re
from pathlib import Path

import pytest

from chaos import cli
from chaos.faults.known import known_faults
from chaos.settings import RUN_OPTIONS, STACK_OPTIONS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EACH = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))

PLUGIN_OPTIONS = {f"--chaos-{option.name}" for option in (*STACK_OPTIONS, *RUN_OPTIONS)}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CODE = re.compile(r"^```\w*\n(.*?)^```|(`+)(.+?)\2", re.MULTILINE | re.DOTALL)
# Behind these the rest of a line is another program's, or a comment.
END_OF_COMMAND = re.compile(r"\s[|#>]|\s&&|;|$")


def code(text):
    """Every piece of code, a line each; what is continued on the next line is one."""
    pieces = [fenced or inline for fenced, _, inline in CODE.findall(text)]
    return [line.strip() for piece in pieces for line in piece.replace("\\\n", " ").splitlines()]


# --- links ----------------------------------------------------------------------------------------------------------


def anchors(text):
    """The fragments of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text, document):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (fragment and fragment not in anchors(file.read_text() if path else text)):
            broken.append(target)
    return broken


@EACH
def test_links_lead_somewhere(document):
    assert broken_links(document.read_text(), document) == []


def test_a_link_that_leads_nowhere_is_seen():
    text = "# One two\n[a](docs/design.md#faults) [b](nowhere.md) [c](docs/design.md#nothing) [d](#one-two) [e](https://x.y)"
    assert broken_links(text, ROOT / "README.md") == ["nowhere.md", "docs/design.md#nothing"]


# --- commands -------------------------------------------------------------------------------------------------------


def verbs(parser):
    """The verbs of a parser; none of one that has only options."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found[0] if found else {}


def every_option(parser):
    below = [every_option(each) for each in verbs(parser).values()]
    return set(parser._option_string_actions).union(*below)


def unknown_words(line):
    """The verbs and options of one line that the program, pytest's plugin or make hasn't got."""
    found = []
    for command in re.findall(r"(?<![\w/.-])(?:\.venv/bin/)?kuberay-chaos ([a-z][^`]*)", line):
        found += unknown_to(cli._parser(), command)
    for target, quoted, bare in re.findall(r'(?<![\w/-])make ([a-z-]+)(?: ARGS=(?:"([^"]*)"|(\S+)))?', line):
        arguments = quoted or bare
        if target not in TARGETS:
            found.append(f"make {target}")
        elif not target.startswith(("test", "bench")):
            found += (
                unknown_to(verbs(cli._parser())["run" if target == "chaos" else target], arguments) if arguments else []
            )
    found += [word for word in re.findall(r"--chaos-[\w-]+", line) if word not in PLUGIN_OPTIONS]
    if line.startswith("--") and not line.startswith("--chaos-"):
        found += [word for word in options(line) if word not in every_option(cli._parser())]
    return found


def options(line):
    return [word.partition("=")[0] for word in line.split() if re.match(r"--?[a-z]", word)]


def unknown_to(parser, command):
    words = command[: END_OF_COMMAND.search(command).start()].split()
    while words and verbs(parser):
        verb = words.pop(0)
        if verb not in verbs(parser):
            return [f"{parser.prog} {verb}"]
        parser = verbs(parser)[verb]
    return [f"{parser.prog} {word}" for word in options(" ".join(words)) if word not in parser._option_string_actions]


@EACH
def test_commands_and_options_are_there(document):
    assert [word for line in code(document.read_text()) for word in unknown_words(line)] == []


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("kuberay-chaos run --kubeconfig f --context c -k head  # --nothing", []),
        (".venv/bin/kuberay-chaos images save stack.tar --ray 2.46.0", []),
        ("helm template x | kuberay-chaos audit - | grep --quiet x", []),
        ("kubectl create clusterrole kuberay-chaos-audit --verb=get", []),
        ("kuberay-chaos mend", ["kuberay-chaos mend"]),
        ("kuberay-chaos images mend", ["kuberay-chaos images mend"]),
        (".venv/bin/kuberay-chaos heal --level full", ["kuberay-chaos heal --level"]),
        ('make chaos ARGS="--level full --jobz 1"', ["kuberay-chaos run --jobz"]),
        ("make peace", ["make peace"]),
        ("pytest --pyargs chaos.experiments --chaos-colour=red", ["--chaos-colour"]),
        ("--wait SECONDS", []),
        ("--waitt SECONDS", ["--waitt"]),
    ],
)
def test_a_command_that_is_not_there_is_seen(line, unknown):
    assert unknown_words(line) == unknown


# --- paths ----------------------------------------------------------------------------------------------------------


def missing_paths(text):
    looks = re.compile(r"(?<![\w/.-])(?:chaos|tests|manifests|docs|benchmarks)/[\w./*-]*")
    named = [path for line in code(text) for path in looks.findall(line)]
    return [path for path in named if not list(ROOT.glob(path.rstrip("/.")))]


@EACH
def test_paths_are_there(document):
    assert missing_paths(document.read_text()) == []


def test_a_path_that_is_not_there_is_seen():
    text = "`chaos/faults/` and `tests/unit/test_*.py`, but neither `chaos/nothing.py` nor\n```\npytest tests/nowhere\n```\n"
    assert missing_paths(text) == ["chaos/nothing.py", "tests/nowhere"]


# --- faults ---------------------------------------------------------------------------------------------------------


def test_the_table_of_faults_is_complete():
    row = r"^\| `([a-z-]+)` \| (\w+) \| (?:API|on the node) \|([^|]*)\|"
    rows = re.findall(row, (ROOT / "docs/design.md").read_text(), re.MULTILINE)
    told = {name: (scope, tuple(re.findall(r"`(\w+)`", needs))) for name, scope, needs in rows}
    ours = {name: fault for name, fault in known_faults().items() if fault.__module__.startswith("chaos.")}
    assert told == {name: (str(fault.scope), fault.needs) for name, fault in ours.items()}

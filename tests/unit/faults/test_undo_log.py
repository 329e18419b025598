"""The undo log: whatever was appended and not done is found again, also after a crash at any byte."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import StackError
from chaos.faults.undo import Undo, UndoLog, heal, kinds, perform


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    """Properties are tried on hundreds of logs; that each is synced is a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


names = st.text(max_size=12)
undos = st.builds(
    Undo, st.sampled_from(["pod-chain", "repair"]), st.dictionaries(names, names | st.integers(), max_size=3)
)


class Model:
    """What a log must hold, in the simplest form there is: the entries in the order in which they were appended."""

    def __init__(self):
        self.entries = {}

    def act(self, log, action, number):
        """Do one thing to the log and to the model."""
        if isinstance(action, list):
            log.append(f"fault-{number}", action)
            self.entries |= {(f"fault-{number}", index): undo for index, undo in enumerate(action)}
        elif self.entries:
            place = list(self.entries)[action % len(self.entries)]
            log.done(*place)
            del self.entries[place]

    def pending(self):
        return [(*place, undo) for place, undo in reversed(self.entries.items())]


actions = st.lists(st.lists(undos, max_size=3) | st.integers(0, 20), max_size=12)


@given(actions)
def test_what_was_appended_and_not_done_is_pending_latest_first(actions):
    with tempfile.TemporaryDirectory() as folder:
        log, model = UndoLog(Path(folder) / "undo.jsonl"), Model()
        for number, action in enumerate(actions):
            model.act(log, action, number)
        assert UndoLog(log.path).pending() == model.pending()


@given(actions, st.data())
def test_a_log_torn_at_any_byte_gives_its_whole_entries_and_can_be_appended_to(actions, data):
    with tempfile.TemporaryDirectory() as folder:
        log, model = UndoLog(Path(folder) / "undo.jsonl"), Model()
        for number, action in enumerate(actions):
            model.act(log, action, number)
        whole = log.path.read_bytes() if log.path.exists() else b""
        torn = whole[: data.draw(st.integers(0, len(whole)), label="cut at")]
        log.path.write_bytes(torn)

        expected = {}
        for line in torn.split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                assert line == torn.rpartition(b"\n")[2], "only the last line may be torn"
                continue
            place = (entry["injection"], entry["index"])
            if "done" in entry:
                del expected[place]
            else:
                expected[place] = Undo(entry["kind"], entry["what"])
        assert log.pending() == [(*place, undo) for place, undo in reversed(expected.items())]

        later = Undo("repair", {"name": "later"})
        log.append("next-1", [later])
        assert log.pending()[0] == ("next-1", 0, later)
        assert len(log.pending()) == len(expected) + 1
        log.done("next-1", 0)
        assert len(log.pending()) == len(expected)


@given(st.binary(max_size=80))
def test_what_was_never_written_by_us_does_not_hide_what_was(garbage):
    with tempfile.TemporaryDirectory() as folder:
        log = UndoLog(Path(folder) / "undo.jsonl")
        log.path.write_bytes(garbage)
        log.append("fault-1", [Undo("repair", {"name": "a"})])
        assert log.pending() == [("fault-1", 0, Undo("repair", {"name": "a"}))]


def test_a_stack_without_a_log_has_nothing_to_undo(log):
    assert log.pending() == []
    log.append("fault-1", [])
    assert not log.path.exists()


def test_the_log_is_private(log):
    log.append("fault-1", [Undo("repair", {})])
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_it_is_on_the_disk_before_append_returns(log, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), fsync(fd))[1])
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    assert log.path.stat().st_size in synced


def test_a_write_that_takes_only_a_part_is_gone_on_with(log, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    entries = [Undo("repair", {"name": name}) for name in "abc"]
    log.append("fault-1", entries)
    assert [undo for _, _, undo in log.pending()] == entries[::-1]


def test_a_full_disk_is_an_error_before_the_fault_goes_on(log, monkeypatch):
    write = os.write
    room = [10]

    def nearly_full(descriptor, data):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: room.pop()])

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(OSError, match="No space left"):
        log.append("fault-1", [Undo("repair", {"name": "a"})])
    monkeypatch.undo()
    assert log.pending() == []


def test_its_name_is_on_the_disk_too_when_it_is_new(log, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    assert synced == [str(log.path), str(log.path.parent)], "the content first, then the name"


def test_a_torn_last_line_is_no_damage_also_when_others_come_after_it(log):
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    with log.path.open("ab") as file:
        file.write(b'{"injection": "fault-2", "index": 0, "kind": "repair", "wh')
    assert log.unreadable() == []
    log.done("fault-1", 0)
    assert (log.pending(), log.unreadable()) == ([], [])
    assert b"fault-2" not in log.path.read_bytes()


def test_a_last_line_that_an_editor_left_without_its_end_is_read_and_kept(log):
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    log.path.write_bytes(log.path.read_bytes().rstrip(b"\n"))
    log.append("fault-2", [Undo("repair", {"name": "b"})])
    assert [undo.what["name"] for _, _, undo in log.pending()] == ["b", "a"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"injection": "fault-1", "ind', "it is not JSON"),
        ("# do not touch", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        ('["fault-1", 0]', "it is not an entry"),
        ('{"injection": "x", "index": 0}', "kind is missing"),
        ('{"injection": "x", "index": "0", "kind": "repair", "what": {}}', "index is missing or not of the right kind"),
        ('{"injection": "x", "index": 0, "kind": "repair", "what": ["name", "a"]}', "what is missing or not"),
        ('{"index": 0, "done": true}', "injection is missing"),
        ('{"injection": "x", "index": 0, "kind": "repair", "what": {}, "done": "no"}', ""),
    ],
)
def test_a_line_that_may_hide_an_undo_is_told_by_its_number(cluster, log, line, why):
    cluster.broken = {"a", "b"}
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    with log.path.open("ab") as file:
        file.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
    log.append("fault-2", [Undo("repair", {"name": "b"})])
    for _ in range(2):  # it is told as long as it is there
        _, failed = heal(cluster, log)
        assert not cluster.broken, "the rest is healed"
        assert len(failed) == 1
        if why:
            assert failed[0].startswith(f"line 2 of {log.path} can't be read: {why}")
    assert sorted(set(cluster.repaired)) == ["a", "b"], "what was never said is never done"


def test_a_process_that_only_heals_knows_every_kind_of_undo():
    program = "import sys; from chaos.faults import undo; print(*undo.kinds()); assert 'chaos.lab' not in sys.modules"
    known = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"pod-chain", "cluster-role-rules"} <= set(known)


@pytest.mark.parametrize("kind", kinds())
def test_an_argument_of_the_wrong_shape_is_told_before_anything_is_touched(kind):
    shape = kinds()[kind]
    for key in shape:
        other = {name: wanted() for name, wanted in shape.items() if name != key}
        for what in (other, {**other, key: None}):
            with pytest.raises(StackError, match=f"the undo log's {kind} has no {key}"):
                perform(None, Undo(kind, what))
    assert shape, "a kind that declares nothing would meet an edited log with a KeyError"


def test_an_unknown_kind_is_named(cluster):
    with pytest.raises(StackError, match="no-such-kind"):
        perform(cluster, Undo("no-such-kind", {}))


# --- heal -----------------------------------------------------------------------------------------------------------


def test_heal_undoes_all_that_is_left_latest_first_and_says_so(cluster, log):
    cluster.broken = {"a", "b", "c"}
    log.append("fault-1", [Undo("repair", {"name": "a"}), Undo("repair", {"name": "b"})])
    log.append("fault-2", [Undo("repair", {"name": "c"})])
    healed, failed = heal(cluster, log)
    assert cluster.repaired == ["c", "b", "a"]
    assert not cluster.broken
    assert healed == ["fault-2: repair undone", "fault-1: repair undone", "fault-1: repair undone"]
    assert failed == []
    assert heal(cluster, log) == ([], [])


def test_one_that_cannot_be_undone_keeps_nothing_else_from_it_and_stays_pending(cluster, log):
    cluster.broken, cluster.stuck = {"a", "b", "c"}, {"b"}
    for number, name in enumerate("abc"):
        log.append(f"fault-{number}", [Undo("repair", {"name": name})])
    healed, failed = heal(cluster, log)
    assert cluster.broken == {"b"}
    assert len(healed) == 2
    assert failed == ["fault-1: repair could not be undone: b is stuck"]
    assert [undo.what["name"] for _, _, undo in log.pending()] == ["b"]

    cluster.stuck.clear()
    assert heal(cluster, log) == (["fault-1: repair undone"], [])
    assert not cluster.broken


def test_what_another_fault_was_in_the_way_of_is_undone_once_that_is(cluster, log, monkeypatch):
    """As with a role that can't be restored while the API server is held, whichever was injected first."""
    cluster.broken, cluster.stuck = {"role", "server"}, {"role"}
    for name in ("server", "role"):
        log.append(name, [Undo("repair", {"name": name})])
    done = log.done
    monkeypatch.setattr(log, "done", lambda *place: (cluster.stuck.clear(), done(*place)))
    healed, failed = heal(cluster, log)
    assert (len(healed), failed, cluster.broken) == (2, [], set())


def test_an_unknown_kind_keeps_nothing_else_from_being_healed(cluster, log):
    cluster.broken = {"a"}
    log.append("fault-1", [Undo("repair", {"name": "a"})])
    log.append("fault-2", [Undo("of another version", {})])
    healed, failed = heal(cluster, log)
    assert (len(healed), len(failed)) == (1, 1)
    assert not cluster.broken


def test_a_log_that_cannot_be_written_keeps_nothing_from_being_healed(cluster, log, monkeypatch):
    cluster.broken = {"a", "b"}
    log.append("fault-1", [Undo("repair", {"name": "a"}), Undo("repair", {"name": "b"})])

    def refuse(*place):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log, "done", refuse)
    healed, failed = heal(cluster, log)
    assert not cluster.broken
    assert healed == []
    assert len(failed) == 2


_HEALS = """
from chaos.faults.undo import Undo, perform
from chaos.process import Executed

class Empty:
    def node_exec(self, node, argv, **more):
        return Executed(0, b"", b"")
    def get(self, *which):
        return None

for kind, what in {undos}:
    perform(Empty(), Undo(kind, what))
"""


def test_a_process_that_used_no_fault_undoes_every_kind_and_is_content_when_all_is_gone():
    node = {"node": "n1", "uid": "u1"}
    undos = [
        ("cluster-role-rules", {"name": "r", "rules": []}),
        ("load", {**node, "marker": "kuberay-chaos-load-1"}),
        ("network-policy", {"namespace": "ns", "name": "p"}),
        ("pod-chain", {**node, "chain": "KUBERAY-CHAOS-1"}),
        ("pod-queue", {**node, "handle": "c4a0:"}),
        ("stopped-process", {"node": "n1", "container": "c1", "process": "", "pid": 1, "started": 1}),
    ]
    heals = [sys.executable, "-c", _HEALS.format(undos=undos)]
    ended = subprocess.run(heals, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_only_what_is_asked_for_is_healed(cluster, log):
    cluster.broken = {"a", "b"}
    for name in "ab":
        log.append(name, [Undo("repair", {"name": name})])
    with log.path.open("a") as file:
        file.write("edited by hand\n")
    assert heal(cluster, log, only=["a"]) == (["a: repair undone"], [])
    assert cluster.broken == {"b"}


def test_experiments_side_by_side_write_whole_lines(log, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (write(fd, data[:5]), time.sleep(0.0005))[0])
    threads = [
        threading.Thread(target=log.append, args=[f"t{n}", [Undo("repair", {"name": str(n)})]]) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(log.pending()), log.unreadable()) == (8, [])


def test_what_another_process_has_half_written_is_waited_for_and_not_torn(tmp_path):
    log = UndoLog(tmp_path / "undo.jsonl")
    whole = json.dumps({"injection": "theirs", "index": 0, "kind": "repair", "what": {}}) + "\n"
    ours = threading.Thread(target=log.append, args=["ours", [Undo("repair", {})]])
    with log.path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(whole[:20].encode())
        ours.start()
        ours.join(0.5)
        assert ours.is_alive()
        file.write(whole[20:].encode())
    ours.join(20)
    assert [injection for injection, _, _ in log.pending()] == ["ours", "theirs"]
    assert log.unreadable() == []

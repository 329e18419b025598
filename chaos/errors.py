"""Every error this package raises on purpose.

::

    ChaosError                    one clear message for a person; never a traceback
    ├── UsageError                exit 3   wrong option, unknown version, unreadable file, unwritable folder
    ├── StackError                exit 4   the stack could not be stood up, or is not healthy
    │   ├── DoctorError           exit 4   the machine lacks something; the message says what to do
    │   ├── EngineError           exit 4   Docker is not there, not permitted, or refused a command
    │   ├── ImageError            exit 4   an image or program could not be built, fetched or verified
    │   └── BusyError             exit 4   another run holds the stack or the name
    └── Unjudged                  exit 2   an experiment could not be judged; the verdict is `unknown`
        ├── NoSteadyState                  the stack or workload was not steady before the fault
        ├── NoEffect                       the fault was applied and its effect was not seen
        ├── NotAllowed                     the fault would reach beyond our own namespaces on a cluster that isn't ours
        ├── FeatureMissing                 the machine, kernel or cluster lacks what a fault needs
        └── NotReached                     something awaited did not come within its deadline

Each carries what happened in ``args[0]`` and, where there is one, what to do next in ``fix``.
"""

import traceback


class ChaosError(Exception):
    """Base of all; ``exit_code`` is what the command exits with when the error ends it."""

    exit_code = 4

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n  what to do: {self.fix}" if self.fix else message


class UsageError(ChaosError):
    """The request itself is wrong; nothing was touched."""

    exit_code = 3


class StackError(ChaosError):
    """The stack could not be stood up, or one of its layers is not healthy."""


class DoctorError(StackError):
    """The machine lacks something that the run needs."""


class EngineError(StackError):
    """Docker is not reachable, not permitted, or refused a command."""


class ImageError(StackError):
    """An image or program could not be built, fetched or verified."""


class BusyError(StackError):
    """Another run holds the stack."""


class Unjudged(ChaosError):
    """An experiment could not be judged: its verdicts are ``unknown``, never green."""

    exit_code = 2


class NoSteadyState(Unjudged):
    """The baseline was not reached, so nothing that follows would prove anything."""


class NoEffect(Unjudged):
    """A fault was applied and no independent probe saw its effect."""


class NotAllowed(Unjudged):
    """A fault would reach beyond our own namespaces, on a cluster that isn't ours, and was not allowed by name."""


class FeatureMissing(Unjudged):
    """What a fault needs is not there: the kernel, the platform or the cluster doesn't offer it."""


class NotReached(Unjudged):
    """Something awaited did not come within its deadline."""


def own_fault(what: str, fault: Exception) -> StackError:
    """A fault of this program, as the one message that it comes to."""
    return StackError(
        f"{what}: {type(fault).__name__}: {fault}",
        fix="this is a fault of kuberay-chaos; please report it with the traceback below\n"
        + "".join(traceback.format_exception(fault)[-4:]),
    )

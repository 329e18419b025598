"""One measured figure beside its limit."""

from dataclasses import dataclass


@dataclass
class Figure:
    """``limit`` is the most that ``value`` may be, in the same ``unit``."""

    name: str
    value: float
    limit: float
    unit: str
    note: str = ""

    @property
    def within(self):
        return self.value <= self.limit

    def __str__(self):
        mark = "ok  " if self.within else "OVER"
        return f"{mark} {self.name}: {self.value:.3g} {self.unit} (limit {self.limit:g}){f' - {self.note}' if self.note else ''}"

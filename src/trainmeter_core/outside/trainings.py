"""Tells ranks and restarts of one training from other trainings that the same command starts; pure.

A command may start many trainings: a sweep's trials, a shell's loop, a pool of jobs. Each has a run directory. What
belongs to one training:

- the ranks of one launcher: several ranks that meet at one place, have one parent process, or one id of torchrun;
- their restarts: the same launcher starts a rank again, or the same script goes on from a checkpoint of the training;
- the children that one program makes by fork or multiprocessing.

A process with a command line of its own, of a world of one, that goes on from nothing that was seen, is another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .program import script_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")


@dataclass
class Training(Generic[_T]):
    """One training, by the processes that were seen of it; `of` is whatever its owner keeps."""

    of: _T
    world_size: int = 1
    pids: set[int] = field(default_factory=set)
    ranks: dict[int, int] = field(default_factory=dict)
    """The newest process of each rank."""
    programs: set[int] = field(default_factory=set)
    parents: set[int] = field(default_factory=set)
    rendezvous: set[str] = field(default_factory=set)
    elastic: set[str] = field(default_factory=set)
    commands: list[list[str]] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    """Checkpoints that it saved."""

    def add(self, told: Mapping[str, Any]) -> None:
        """A process that belongs to it told who it is."""
        pid = int(told["pid"])
        self.pids.add(pid)
        self.ranks[int(told["rank"])] = pid
        self.world_size = int(told.get("world_size", 1))
        self.programs.add(int(told.get("program", pid)))
        command = list(told.get("command", ()))
        if command not in self.commands:
            self.commands.append(command)
        if "parent" in told:
            self.parents.add(int(told["parent"]))
        if told.get("rendezvous", ":") != ":":
            self.rendezvous.add(str(told["rendezvous"]))
        if told.get("elastic"):
            self.elastic.add(str(told["elastic"]))

    def has(self, told: Mapping[str, Any]) -> bool:
        """Whether a process that tells this of itself belongs here."""
        if not self.pids or "program" not in told:  # nobody trained yet; or an agent of another version
            return True
        if int(told["program"]) in self.programs or self._is_gone_on_with(told):
            return True
        if told.get("elastic"):
            return str(told["elastic"]) in self.elastic
        if int(told.get("world_size", 1)) == 1:
            return False
        if int(told["parent"]) in self.parents:
            return True
        free = int(told["rank"]) not in self.ranks and int(told["world_size"]) == self.world_size
        return free and (str(told.get("rendezvous")) in self.rendezvous or not self.rendezvous)

    def _is_gone_on_with(self, told: Mapping[str, Any]) -> bool:
        """Whether it loaded a checkpoint of this training, to train it further and not to begin another with it."""
        if not self.marks.intersection(told.get("loaded", ())):
            return False
        command = list(told.get("command", ()))
        return command in self.commands or (
            bool(told.get("made_before")) and any(script_of(command) == script_of(each) for each in self.commands)
        )


class Trainings(Generic[_T]):
    """The trainings of one command, and which process belongs to which."""

    def __init__(self, first: _T) -> None:
        self.all: list[Training[_T]] = [Training(first)]
        self._by_pid: dict[int, Training[_T]] = {}

    def of(self, pid: int) -> Training[_T] | None:
        """The training of a process; None before it told who it is."""
        return self._by_pid.get(pid)

    def find(self, told: Mapping[str, Any]) -> Training[_T] | None:
        """Where a process that tells this of itself belongs; None where that is no training yet."""
        return next((each for each in reversed(self.all) if each.has(told)), None)

    def begin(self, of: _T) -> Training[_T]:
        """Another training."""
        training = Training(of)
        self.all.append(training)
        return training

    def join(self, training: Training[_T], told: Mapping[str, Any]) -> None:
        """A process belongs to it from now on."""
        training.add(told)
        self._by_pid[int(told["pid"])] = training

    def forget(self, training: Training[_T]) -> None:
        """Nobody joins it any more."""
        self.all.remove(training)
        for pid in training.pids:
            self._by_pid.pop(pid, None)

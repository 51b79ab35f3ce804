"""Every function of ours that a training calls is made to fail, one after the other: the training goes on as without us.

What a training calls is found by watching one, so that a new function is in the list by itself. A function that the
program calls directly is the border: its own body is a guard around the rest, and the rest is what fails here.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace

import pytest

from tests.faults import tiny_training
from tests.mlflow import mlflow_reading
from tests.wandb.conftest import client_environment
from trainmeter_core.inside import guard, import_hooks, publishing, this_process
from trainmeter_core.inside.agent import Agent
from trainmeter_core.outside.drain import Drain
from trainmeter_core.passport.build import build
from trainmeter_core.passport.check import check
from trainmeter_core.plugins import manager_of_one
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter

PACKAGES = ("trainmeter_core.", "trainmeter_tb.", "trainmeter_mlflow.", "trainmeter_wandb.")
TAPS = {
    "optimizer": "torch.optim.optimizer",
    "backward": "torch.autograd",
    "model": "torch.nn.modules.module",
    "compiling": "torch.compiler",
    "data": "torch.utils.data.dataloader",
    "scaler": "torch.amp.grad_scaler",
    "checkpoint": "torch.serialization",
}


class InjectedError(Exception):
    """Ours, in the test: it must never be seen by the program."""


class TensorBoard:
    """The user's tracker calls through a SummaryWriter."""

    plugin, module = "trainmeter_tb.plugin", "tensorboard.summary.writer.event_file_writer"
    packages = ("trainmeter_core.", "trainmeter_tb.")

    def __init__(self, _folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer_class = SummaryWriter

    def begin(self, place: Path) -> None:
        self.place = place
        self.writer = self.writer_class(str(place / "tb"))

    def log(self, step, values) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def end(self):
        self.writer.close()

    def of_user(self):
        from trainmeter_tb.users import users_data

        return [data.content for data in users_data(str(self.place))]


class MLflow:
    """The user's tracker calls through a store of MLflow's."""

    plugin, module = "trainmeter_mlflow.plugin", "mlflow.store.tracking.sqlalchemy_store"
    packages = ("trainmeter_mlflow.",)

    def __init__(self, folder: Path) -> None:
        import mlflow

        uri = f"sqlite:///{folder}/mlflow.db"
        self.store = importlib.import_module(self.module).SqlAlchemyStore(uri, f"file://{folder}/artifacts")
        self.client = mlflow.MlflowClient(uri)

    def begin(self, _place: Path) -> None:
        self.run_id = self.client.create_run("0").info.run_id

    def log(self, step, values) -> None:
        from mlflow.entities import Metric

        self.store.log_batch(self.run_id, [Metric(name, value, 0, step) for name, value in values.items()], [], [])

    def end(self) -> None:
        from mlflow.entities import RunStatus

        self.store.update_run_info(self.run_id, RunStatus.FINISHED, 1, "run")

    def of_user(self):
        return mlflow_reading.of_user(self.client, self.run_id)


class WandB:
    """The user's tracker calls through a Run that is written for `wandb sync`."""

    plugin, module = "trainmeter_wandb.plugin", "wandb.sdk.wandb_run"
    packages = ("trainmeter_wandb.",)

    def __init__(self, folder: Path) -> None:
        for name, value in client_environment(folder).items():
            if name.startswith("WANDB_"):
                os.environ[name] = value
        import wandb

        self.client = wandb

    def begin(self, place: Path) -> None:
        self.place = place
        self.run = self.client.init(project="p", dir=str(place), config={"lr": 0.1})

    def log(self, step, values) -> None:
        self.run.log(values, step=step)

    def end(self) -> None:
        self.run.finish()

    def of_user(self):
        """The client's own process writes the file, its end a moment after `finish` has returned."""
        from trainmeter_wandb.users import users_data

        until = time.monotonic() + 10
        while True:
            found = [data.content for data in users_data(str(self.place))]
            if all("exit code" in content for content in found) or time.monotonic() > until:
                return found
            time.sleep(0.005)


@pytest.fixture(scope="module", params=[TensorBoard, MLflow, WandB])
def bench(request):
    """Where trainings are made; a folder in memory, for a database's every commit waits for its disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        made = SimpleNamespace(folder=Path(folder), tracker=request.param(Path(folder)), count=0)
        gc.collect()
        gc.freeze()  # each training collects its own garbage, and not the libraries again
        yield made
        gc.unfreeze()


@pytest.fixture(autouse=True)
def as_in_production(monkeypatch, tmp_path):
    """Failures are counted and not raised; a row is due whenever one is asked for; nothing waits at the end."""
    monkeypatch.setattr(guard, "STRICT", False)
    monkeypatch.setattr(publishing, "ROW_INTERVAL_S", 0.0)
    monkeypatch.setenv("TRAINMETER_RUN", str(tmp_path))
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TRAINMETER_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    sender = importlib.import_module("trainmeter_mlflow.sender")
    monkeypatch.setattr(sender, "LINGER_S", 0.0)
    monkeypatch.setattr(sender, "EXIT_S", 0.2)
    yield
    for place in guard._sites.values():
        place.on, place.count, place.first = True, 0, ""


def run(bench, measured: bool) -> SimpleNamespace:
    """One training that logs to a tracker, as the program and `inside.bootstrap` would make it; our spool."""
    for place in guard._sites.values():
        place.on, place.count, place.first = True, 0, ""
    bench.count += 1
    tracker, folder = bench.tracker, bench.folder / f"{bench.count}"
    (folder / "spool").mkdir(parents=True)
    left = SimpleNamespace(spool=folder / "spool", result=None, agent=None, undo=None)
    if measured:
        import_hooks.run_hook(lambda _: _installed(left, tracker), tiny_training)
    try:
        tracker.begin(folder)
        left.result = tiny_training.train(tracker.log)
        tracker.end()
        this_process._finish()
        gc.collect(1)
    finally:
        this_process._agent = None
    return left


def _installed(left, tracker) -> None:
    left.agent = this_process._agent = Agent(str(left.spool))
    for tap, module in TAPS.items():
        install = importlib.import_module(f"trainmeter_core.inside.taps.{tap}").install
        left.agent.install(tap, install, sys.modules[module])
    with guard.site("plugin"):
        plugin = importlib.import_module(tracker.plugin)
        left.agent.publish()._plugins["tracker"] = manager_of_one("tracker", plugin)
        undo = plugin.install_tap(sys.modules[tracker.module], left.agent.publish())
        if callable(undo):
            left.agent.undo.append(("tracker", undo))


def of_user(bench, left):
    """What the program came to; read when nothing is made to fail any more, and all taps are out."""
    if left.agent is not None:
        while left.agent.undo:
            _, undo = left.agent.undo.pop()
            if callable(undo):
                undo()
        importlib.import_module(bench.tracker.plugin)._publishers.clear()
    return left.result, bench.tracker.of_user()


def steps_in(spool, folder) -> int:
    """The steps that a passport made of what lies in the spool tells of."""
    writer = RunWriter.create("train.py", ["train.py"], runs=folder)
    records: list = []
    drain = Drain(str(spool), records.append)
    drain.finish()
    drain.close()
    writer.append_many(records)
    writer.close()
    passport = build(read_run(writer.directory))
    assert check(passport) == []
    return passport["data"]["steps"]["value"] or 0


def called_in_training(bench) -> SimpleNamespace:
    """Our functions that one training calls, by name; those that are called from elsewhere than from us; threads'."""
    names: dict[CodeType, str] = {}
    border: set[CodeType] = set()
    on_threads: set[CodeType] = set()
    in_training: set[CodeType] = set()
    main = threading.get_ident()

    def watch(frame, event, _argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith(PACKAGES):
            code = frame.f_code
            names[code] = frame.f_globals["__name__"] + ":" + getattr(code, "co_qualname", code.co_name)
            (in_training if threading.get_ident() == main else on_threads).add(code)
            caller = frame.f_back
            if caller is None or not caller.f_globals.get("__name__", "").startswith(PACKAGES):
                border.add(code)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        left = run(bench, measured=True)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    of_user(bench, left)
    return SimpleNamespace(names=names, border=border, on_threads=on_threads - in_training)


def functions() -> dict[CodeType, FunctionType]:
    """Every function of ours that is a module's or a class's own, by its code."""
    found: dict[CodeType, FunctionType] = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(PACKAGES):
            continue
        for value in list(vars(module).values()):
            for held in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                each = getattr(held, "fget", None) or getattr(held, "__func__", None) or held
                if isinstance(each, FunctionType):
                    found[each.__code__] = each
    return found


def _makes_something(code: CodeType) -> bool:
    """Half an object, or something else in place of a tap, is no fault of a kind that happens."""
    inner = [each.co_name for each in code.co_consts if isinstance(each, CodeType)]
    return code.co_name in ("__init__", "start_anew", "install") or any(not name.startswith("<") for name in inner)


_INJECTED: Exception
_GARBAGE: object


def _raises(*_args, **_kwargs):
    raise _INJECTED  # noqa: F821 - a global of the module whose function this takes the place of


def _hangs(*_args, **_kwargs):
    """On a thread of ours for ever; the training's own does not wait for the same thing."""
    import threading

    if threading.current_thread() is threading.main_thread():
        raise _INJECTED  # noqa: F821 - the same
    _HANGING.wait()  # type: ignore[name-defined] # noqa: F821 - the same


def _nothing(*_args, **_kwargs):
    return None


def _garbage(*_args, **_kwargs):
    return _GARBAGE  # noqa: F821 - the same


class Garbage:
    """Looks like nothing that anybody expects."""


FAULTS = {
    "raises": (_raises,),
    "has no memory": (_raises,),
    "hangs": (_hangs,),
    "gives something else": (_nothing, _garbage),
}
# What a tap or an adapter calls for each batch, step and row; elsewhere one exception is caught as the other.
MEMORY = ("trainmeter_core.inside.taps.", "trainmeter_core.inside.agent:", "tap:", "publish:")

# The border besides: a few lines each, which hold the guard themselves or have nothing that can fail.
BORDER = (
    "inside.guard:",
    "inside.import_hooks:",
    "inside.taps.model:ModelTap.note", "inside.taps.model:ModelTap.see", "inside.taps.model:ModelTap.returned",
    "inside.taps.scaler:_events",
    "inside.publishing:Publishing.guard", "inside.publishing:Publishing.logging", "inside.publishing:_LogCall.",
    "trainmeter_tb.publish:Publisher.silent",
    "trainmeter_mlflow.publish:Publisher.silent", "trainmeter_mlflow.publish:_Inside.",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_function_of_ours_that_fails_costs_the_program_nothing(bench, faults, fault, tmp_path, capfd, monkeypatch):
    unraisable: list = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    monkeypatch.setattr(threading, "excepthook", unraisable.append)
    bare = of_user(bench, run(bench, measured=False))
    whole = run(bench, measured=True)
    assert of_user(bench, whole) == bare
    assert steps_in(whole.spool, tmp_path) == tiny_training.STEPS
    called = called_in_training(bench)
    names, border, known = called.names, called.border, functions()
    if fault == "hangs" and not isinstance(bench.tracker, MLflow):
        assert not called.on_threads, "nothing of ours runs there but in the training's own calls"
        return
    chosen = [
        (name, code)
        for code, name in names.items()
        if code in known
        and code not in border
        and name.startswith(bench.tracker.packages)
        and not any(part in name for part in BORDER)
        and not code.co_freevars  # a closure's code fits no other
        and not code.co_flags & inspect.CO_GENERATOR
        and (fault != "gives something else" or not _makes_something(code))
        and (fault != "has no memory" or any(part in name for part in MEMORY))
        and (fault != "hangs" or code in called.on_threads)
    ]
    assert len(chosen) > 10
    broken = []
    for at, (name, code) in enumerate(chosen):
        function = known[code]
        faults.injected()
        function.__globals__["_INJECTED"] = MemoryError() if fault == "has no memory" else InjectedError(name)
        hanging = function.__globals__["_HANGING"] = threading.Event()
        function.__globals__["_GARBAGE"] = Garbage()
        unraisable.clear()
        capfd.readouterr()
        try:
            function.__code__ = FAULTS[fault][at % len(FAULTS[fault])].__code__
            try:
                left = run(bench, measured=True)
                printed = capfd.readouterr()
            finally:
                function.__code__ = code
                hanging.set()
            assert of_user(bench, left) == bare, "the program's own data differ"
            assert not unraisable, f"Python prints: {unraisable[0].exc_value!r}"
            assert printed == ("", "")
            steps_in(left.spool, tmp_path)
            faults.survived()
        except Exception as error:  # noqa: BLE001 - all are told together
            broken.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            # What it left behind would be found again with each that follows.
            assert of_user(bench, run(bench, measured=True)) == bare, f"{broken}, and all that comes after it"
    assert broken == [], "\n".join(broken)

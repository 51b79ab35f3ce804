"""Start of the agent: reads what `tm` left in the environment and waits for the imports that matter."""

from __future__ import annotations

import os
import sys
from time import monotonic

from . import import_hooks

# Every Python that starts runs this far: `typing` and `types` would cost it more than all the rest of us.
MYPY = False
if MYPY:
    from types import ModuleType  # noqa: TC003 - as above
    from typing import Callable

# Module whose import installs a tap -> the name of our tap module, which has `install(module, agent)`.
TORCH_TAPS = {
    "torch.nn.modules.module": "model",
    "torch.compiler": "compiling",
    "torch._dynamo.trace_rules": "dynamo",
    "torch.optim.optimizer": "optimizer",
    "torch.autograd": "backward",
    "megatron.core.pipeline_parallel.schedules": "backward",
    "torch.utils.data.dataloader": "data",
    "torchdata.stateful_dataloader.stateful_dataloader": "data",
    "torch.amp.grad_scaler": "scaler",
    "torch.serialization": "checkpoint",
    "safetensors.torch": "checkpoint",
    "torch.distributed.checkpoint.state_dict_saver": "checkpoint",
    "torch.distributed.checkpoint.state_dict_loader": "checkpoint",
    "torch.distributed.device_mesh": "parallel",
    "torch.distributed.pipelining.stage": "parallel",
    "megatron.core.parallel_state": "parallel",
    "cloudpickle.cloudpickle": "by_value",
    "ray.cloudpickle.cloudpickle": "by_value",
    "joblib.externals.cloudpickle.cloudpickle": "by_value",
    "dill._dill": "by_value",
    "transformers.trainer_callback": "budget",
    "lightning.pytorch.loops.fit_loop": "budget",
    "pytorch_lightning.loops.fit_loop": "budget",
}


program_start = 0.0
"""When this program began, on the monotonic clock, in a process that was another's before; else 0."""


def plugin_table(text: str) -> list[tuple[str, str, str, list[str]]]:
    """Parse TRAINMETER_PLUGINS: lines of name, module, directory, comma-separated tracker modules, split by tabs."""
    table = []
    for line in text.split("\n"):
        fields = line.split("\t")
        if len(fields) == 4:  # noqa: PLR2004 - the four columns named above
            table.append((fields[0], fields[1], fields[2], [name for name in fields[3].split(",") if name]))
    return table


def start(*, python_begins: bool = False) -> None:
    """Register the post-import hooks. Nothing else happens in a process that never imports torch or a tracker.

    A process that had children before its Python began was a shell, and gave way to its last command.
    """
    global program_start  # noqa: PLW0603 - one per process
    if python_begins and any(os.times()[2:4]):
        program_start = monotonic()
    off = set(os.environ.get("TRAINMETER_NO_TAP", "").split(","))
    hooks: dict[str, Callable[[ModuleType], None]] = {}
    for target, tap in TORCH_TAPS.items():
        if tap not in off:
            hooks[target] = _torch_tap(tap)
    for name, module, directory, trackers in plugin_table(os.environ.get("TRAINMETER_PLUGINS", "")):
        for tracker in trackers:
            hooks[tracker] = _tracker_tap(name, module, directory)
    import_hooks.install(hooks)


def _torch_tap(tap: str) -> Callable[[ModuleType], None]:
    def imported(module: ModuleType) -> None:
        from .this_process import agent_of_this_process

        agent = agent_of_this_process()
        package = "trainmeter_core.inside.taps." + tap
        __import__(package)
        agent.install(tap, sys.modules[package].install, module)

    return imported


def _tracker_tap(name: str, module_name: str, directory: str) -> Callable[[ModuleType], None]:
    def imported(module: ModuleType) -> None:
        from .this_process import agent_of_this_process

        agent_of_this_process().install_plugin(name, module_name, directory, module)

    return imported

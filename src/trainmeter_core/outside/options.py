"""What a user can ask of a run; filled by the command line, read by the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RunOptions:
    """The options of one `tm` command line; None and empty mean "not given"."""

    target: str
    """The script, module or command as written."""
    kind: Literal["script", "module", "command"]
    convention: str | None = None
    peak_tflops: float | None = None
    """Dense peak of one device, 1e12 FLOP/s."""
    budget_tokens: int | None = None
    budget_steps: int | None = None
    budget_flops: float | None = None
    budget_hours: float | None = None
    count: bool = False
    """Run one training pass on tensors without data, inside the trainer, to count what it executes."""
    run_name: str | None = None
    resume: str | None = None
    """The run to go on with: a reference, or "latest"."""
    no_taps: tuple[str, ...] = ()
    no_plugins: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables for the command: the options of adapters."""
    metrics_port: int = 0
    """Where /metrics is served on loopback; 0: any free port."""
    quiet: bool = False
    transcript: str = ""
    """A file for what tm says, line by line as JSON; "": none."""
    progress: bool = False
    web: bool | None = None
    """A viewer on loopback for a run without a tracker; None: where stderr is a terminal."""
    port: int = 0
    """The first port to try for that; 0: the viewer's usual one."""
    keep_web: bool = False
    """Leave the viewer when the run ends."""

    def about(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of run.json that the user's options fill; `given` are those that a run has by name."""
        about = {name: value for name, value in given.items() if value is not None}
        if self.run_name:
            about["name"] = self.run_name
        if self.peak_tflops:
            about["peak_source"] = "user"
        if any(name.startswith("budget") for name in about):
            about["budget_source"] = "user"
        return about

"""`tm attach PID`: watch a program that is running already, from outside."""

from __future__ import annotations

import signal
import sys
import threading

import click

from trainmeter_core.quantities import positive_number


@click.command("attach")
@click.argument("pid", type=click.IntRange(min=1))
@click.option("--run-name", metavar="NAME", help="name of the run directory")
@click.option("--peak-tflops", metavar="X", help="dense peak of one GPU, when tm does not know it")
def command(*, pid: int, run_name: str | None, peak_tflops: str | None) -> None:
    """Watch the running program PID from outside until it ends, or until Ctrl-C.

    Its GPUs, the node, and its processes with their threads and I/O go to a run directory with a passport. The program
    gets no signal and goes on when you stop watching. Steps, tokens and FLOPs are seen only in a program that tm
    started.
    """
    from trainmeter_core.outside.attach import AlreadyWatchedError, Attached
    from trainmeter_core.outside.process_tree import ProcessTree

    try:
        peak = float(positive_number(peak_tflops)) if peak_tflops else None
        attached = Attached(ProcessTree(pid), run_name=run_name, peak_tflops=peak)
    except ProcessLookupError:
        raise click.ClickException(f"no process {pid} on this node") from None
    except AlreadyWatchedError as error:
        raise click.ClickException(f"{pid} runs under tm already; its run directory is {error}") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--peak-tflops") from None
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    _say(f"watching {pid} from outside; Ctrl-C stops watching, the program goes on")
    if attached.guessed:
        _say("its environment is another user's: every GPU of this node is watched")
    ended = attached.watch(stop)
    attached.close()
    place = attached.directory / "passport.md"
    _say(f"{'the program ended' if ended else 'not watching any more'} · passport {place}")
    if attached.writer.problem not in (None, "closed"):
        _say(f"the run log stopped: {attached.writer.problem}")


def _say(line: str) -> None:
    print(f"tm: {line}", file=sys.stderr, flush=True)

"""Signals under tm reach the command as without tm, each once, and tm ends as the command does."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from tests.known import known

COUNT_SIGNALS = """
    import os, signal, sys, time
    seen = []
    for name in sys.argv[2:]:
        signal.signal(getattr(signal, name), lambda number, _: seen.append(number))
    print("ready", os.getpid(), flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        time.sleep(0.01)
    print("saw", [signal.Signals(n).name for n in seen], flush=True)
"""


def interruptible(program):
    """Counts its interrupts: waits for the first, ends half a second after the last; everything after "ready" counts."""
    return program("""
        import signal, sys, time
        caught = []
        signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
        print("ready", flush=True)
        shown, quiet = 0, time.monotonic() + 20
        while time.monotonic() < quiet and shown < int(sys.argv[1]):
            time.sleep(0.01)
            if len(caught) > shown:
                shown, quiet = len(caught), time.monotonic() + 0.5
                print("caught", shown, flush=True)
        print("saved after", len(caught), flush=True)
        if len(sys.argv) > 2:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
    """)


def test_ctrl_c_gives_the_command_one_interrupt_and_tm_dies_of_it_too(tm, terminal, program):
    window = terminal([*tm, interruptible(program), "9", "reraise"])
    window.until("ready")
    window.type("\x03")
    window.until("saved after 1")
    assert window.end() == -signal.SIGINT


def test_a_second_ctrl_c_is_the_commands_affair(tm, terminal, program):
    window = terminal([*tm, interruptible(program), "2"])
    window.until("ready")
    window.type("\x03")
    window.until("caught 1")
    window.type("\x03")
    window.until("saved after 2")
    assert window.end() == 0


def test_ctrl_c_stops_the_shell_script_around_tm(tm, terminal, program):
    script = f"{shlex.join([*tm, interruptible(program), '9', 'reraise'])}; echo went on"
    window = terminal(["bash", "-c", script])
    window.until("ready")
    window.type("\x03")
    window.until("saved after 1")
    assert window.end() == -signal.SIGINT
    assert "went on" not in window.text


def test_ctrl_backslash_that_the_command_survives_leaves_tm_with_it(tm, terminal, program):
    window = terminal([*tm, program(COUNT_SIGNALS), "0.6", "SIGQUIT"])
    window.until("ready")
    window.type("\x1c")
    window.until("saw ['SIGQUIT']")
    assert window.end() == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT"])
def test_a_signal_sent_to_tm_alone_reaches_the_command_once(tm, program, name):
    """With no terminal, SIGINT can only have been sent on purpose as well."""
    process = subprocess.Popen(
        [*tm, program(COUNT_SIGNALS), "0.6", name], stdout=subprocess.PIPE, start_new_session=True
    )
    assert known(process.stdout).readline().startswith(b"ready")
    process.send_signal(signal.Signals[name])
    assert process.communicate(timeout=30)[0].decode() == f"saw ['{name}']\n"
    assert process.returncode == 0


def test_term_that_the_command_does_not_handle_ends_both(tm):
    process = subprocess.Popen([*tm, "bash", "-c", "echo ready; exec sleep 30"], stdout=subprocess.PIPE)
    assert known(process.stdout).readline() == b"ready\n"
    process.terminate()
    assert process.wait(timeout=10) == -signal.SIGTERM


def test_in_a_slurm_step_user_signals_are_not_doubled(tm, program):
    """Slurm sends them to every process of the step; here only tm gets one, so the command must see none."""
    env = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    process = subprocess.Popen(
        [*tm, program(COUNT_SIGNALS), "0.5", "SIGUSR1", "SIGTERM"], stdout=subprocess.PIPE, env=env
    )
    assert known(process.stdout).readline().startswith(b"ready")
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == b"saw ['SIGTERM']\n"


def test_under_nohup_a_hangup_touches_neither(tm, program):
    process = subprocess.Popen(
        [
            "nohup",
            *tm,
            program("""
        import time
        print("ready", flush=True)
        time.sleep(0.6)
        print("done", flush=True)
    """),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert known(process.stdout).readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGHUP)
    assert process.communicate(timeout=30)[0] == b"done\n"
    assert process.returncode == 0


def test_ctrl_z_and_fg_stop_and_continue_both(tm, terminal, program):
    path = program("""
        import time
        print("be" + "gan", flush=True)
        input()
        print("went" + " on", flush=True)
    """)
    window = terminal(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "ready> "})
    window.until("ready> ")  # what is typed while the shell sets its terminal up may be lost
    window.type(shlex.join([*tm, path]) + "\n")
    window.until("began")
    window.type("\x1a")
    window.until("Stopped")
    window.until("ready> ")
    window.type("fg\n")
    window.until(os.path.basename(path))  # the shell shows what goes on, and has given the terminal away
    window.type("\n")
    window.until("went on")
    window.until("ready> ")
    window.type("echo code=$?\n")
    window.until("code=0")
    window.until("ready> ")
    window.type("exit\n")
    assert window.end() == 0


def test_tm_killed_hard_leaves_the_command_running_to_its_end(tm, program, tmp_path):
    path = program("""
        import os, sys, time
        parent = os.getppid()
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(0.01)
        open(sys.argv[1], "w").write("finished")
    """)
    mark = tmp_path / "mark"
    process = subprocess.Popen([*tm, path, str(mark)], stdout=subprocess.PIPE)
    assert known(process.stdout).readline() == b"ready\n"
    process.kill()
    process.wait()
    until(lambda: mark.exists() and mark.read_text() == "finished")


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_as_process_1_tm_reaps_orphans_and_keeps_the_exit_code(tm, program):
    path = program("""
        import os, subprocess, sys, time
        if os.fork() == 0:            # a daemon-like grandchild: its parent ends first, process 1 inherits it
            if os.fork() == 0:
                time.sleep(0.1)
            os._exit(0)
        os.wait()
        time.sleep(0.9)
        states = [open(f"/proc/{pid}/stat").read().split(")")[1].split()[0] for pid in os.listdir("/proc") if pid.isdigit()]
        print("parent", os.getppid(), "zombies", states.count("Z"), flush=True)
        raise SystemExit(5)
    """)
    isolate = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*isolate, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("this machine allows no pid namespace")
    done = subprocess.run([*isolate, *tm, path], capture_output=True, timeout=30)
    assert done.stdout == b"parent 1 zombies 0\n"
    assert done.returncode == 5

"""A command under tm is the command: its terminal, its input, its signals, its end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys

import pytest

from trainmeter_core.outside.launch import Exit, launch

SHOW_ARGV = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"


def run(argv, **how):
    how.setdefault("timeout", 30)
    return subprocess.run(argv, capture_output=True, **how)


# ---------------------------------------------------------------- how it ends


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_commands(tm, code):
    assert run([*tm, sys.executable, "-c", f"raise SystemExit({code})"]).returncode == code


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGINT", "SIGPIPE"])
def test_a_death_by_signal_looks_the_same_as_bare(tm, name):
    bare = ["bash", "-c", f"ulimit -c 0; kill -{name[3:]} $$"]
    number = signal.Signals[name]
    assert run(bare).returncode == -number
    assert run([*tm, *bare]).returncode == -number
    in_bash = shlex.join([*tm, *bare]) + "; echo $?"
    assert run(["bash", "-c", in_bash]).stdout.decode().strip() == str(128 + number)


def test_a_command_that_does_not_exist_ends_with_127_and_one_line(tm):
    done = run([*tm, "no-such-command-here"])
    assert done.returncode == 127
    assert done.stderr == b"tm: no-such-command-here: command not found\n"


def test_a_file_that_is_not_executable_ends_with_126_and_one_line(tm, program):
    path = program("echo never", "plain.sh")
    done = run([*tm, path])
    assert done.returncode == 126
    assert done.stderr.decode() == f"tm: {path}: Permission denied\n"


def test_a_script_without_a_first_line_runs_in_the_shell_as_from_a_shell(tm, program):
    path = program("echo from sh $1", "bare")
    os.chmod(path, stat.S_IRWXU)
    assert run([*tm, path, "x"]).stdout == b"from sh x\n"


def test_a_binary_for_another_machine_ends_with_126(tm, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"\x7fELF\0\0\0\0 not for here")
    path.chmod(stat.S_IRWXU)
    assert run([*tm, str(path)]).returncode == 126


def test_tm_repeats_a_crash_without_a_core_file_of_its_own(tm, tmp_path):
    """Cores are allowed here, and the command may write its own."""
    command = shlex.join([*tm, "bash", "-c", "kill -SEGV $$"])
    argv = ["bash", "-c", f"ulimit -c $(ulimit -H -c); cd {shlex.quote(str(tmp_path))}; exec {command}"]
    _, status = os.waitpid(os.posix_spawn("/bin/bash", argv, os.environ), 0)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert not os.WCOREDUMP(status)


# ---------------------------------------------------------------- what it gets


@pytest.mark.parametrize(
    "arguments",
    [
        [b""],
        [b"--", b"--version", b"-m", b"--off"],
        [b"caf\xe9", b"\xff\xfe", "naïve".encode()],
        [b"a b", b"'", b'"', b"$HOME", b"*", b"\n", b"\\"],
        [b"--lr", b"3e-4", b"", b""],
    ],
)
@pytest.mark.parametrize("how", ["script", "module", "command"])
def test_arguments_arrive_byte_for_byte(tm, program, tmp_path, arguments, how):
    path = program(SHOW_ARGV, "show.py")
    words = {"script": [path], "module": ["-m", "show"], "command": ["--", sys.executable, path]}[how]
    done = run([os.fsencode(word) for word in [*tm, *words]] + arguments, cwd=tmp_path)
    assert done.stdout == b"\0".join(arguments), done.stderr


def test_arguments_arrive_byte_for_byte_in_a_c_locale(tm, program):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = run([os.fsencode(word) for word in [*tm, program(SHOW_ARGV)]] + [b"caf\xe9\xff"], env=env)
    assert done.stdout == b"caf\xe9\xff"


@pytest.mark.parametrize("locale", [{}, {"LANG": "C.UTF-8"}, {"LC_CTYPE": "C.UTF-8"}])
def test_the_environment_differs_only_in_our_own_variables(tm, locale):
    """Also in a C locale, where Python adds LC_CTYPE to its own environment."""
    env = {"PATH": os.environ["PATH"], "EMPTY": "", "ODD": "a=b\nc", **locale}
    shown = ["env", "-0"]
    bare = set(run(shown, env=env).stdout.split(b"\0"))
    under = set(run([*tm, *shown], env=env).stdout.split(b"\0"))
    ours = (b"TRAINMETER_", b"PYTHONPATH=", b"WANDB_X_STATS_OPEN_METRICS_ENDPOINTS=")  # the last: an adapter's
    assert {entry for entry in bare ^ under if not entry.startswith(ours)} == set()


def test_stdin_is_the_users_own_pipe(tm):
    done = run([*tm, sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])"], input=b"abc")
    assert done.stdout == b"cba\n"


def test_tm_says_nothing_on_stdout(tm):
    assert run([*tm, "true"]).stdout == b""


def test_process_substitution_reaches_the_command(tm):
    done = run(["bash", "-c", f"{shlex.join(tm)} cat <(echo hi)"])
    assert done.stdout == b"hi\n"


def test_the_command_sees_the_terminal_and_its_foreground_group(tm, terminal, program):
    path = program("""
        import os, sys
        print("tty", [os.isatty(fd) for fd in (0, 1, 2)], os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == os.getppid())
        print("read", input())
    """)
    window = terminal([*tm, path])
    window.until("tty [True, True, True] True True")
    window.type("hello\n")
    window.until("read hello")
    assert window.end() == 0


def test_ignored_signals_and_mask_are_inherited_as_bare(tm):
    """A handler leaves no trace across exec; SIG_IGN would."""
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    assert run([*tm, *show]).stdout == run(show).stdout


def test_no_descriptor_of_tm_leaks_into_the_command(tm):
    show = ["ls", "/proc/self/fd"]
    assert run([*tm, *show]).stdout == run(show).stdout


# ---------------------------------------------------------------- our own work meanwhile


LAUNCH = """
    import json, os, sys, time
    from trainmeter_core.outside.launch import launch
    log = []
    def tick():
        log.append(time.monotonic())
        if "bad" in sys.argv[1:]:
            raise OSError(28, "No space left on device")
    def on_error(error):
        log.append(str(error))
        raise ValueError("and reporting fails as well")
    started = []
    end = launch(json.loads(sys.argv[1]), dict(os.environ), tick=tick, tick_s=0.05, on_start=started.append, on_error=on_error)
    print(json.dumps({"code": end.code, "signal": end.signal, "errors": end.tick_errors, "log": log, "started": started}))
"""


def test_tick_runs_while_the_command_does(program):
    done = run([sys.executable, program(LAUNCH), json.dumps(["sleep", "0.52"])])
    answer = json.loads(done.stdout)
    assert answer["code"] == 0
    assert 3 <= len(answer["log"]) <= 10
    assert len(answer["started"]) == 1


def test_a_failing_tick_never_touches_the_command(program):
    done = run([sys.executable, program(LAUNCH), json.dumps(["bash", "-c", "sleep 0.3; exit 4"]), "bad"])
    answer = json.loads(done.stdout)
    assert answer["code"] == 4
    ticks = len(answer["log"]) // 2
    assert answer["log"][1::2] == ["[Errno 28] No space left on device"] * ticks
    assert answer["errors"] == 2 * ticks > 0  # each tick, and each report of it
    assert done.stderr == b""


def test_a_command_that_cannot_start_is_an_exit_too():
    assert launch(["/nowhere/x"], dict(os.environ), tick=lambda: None) == Exit(
        127, problem="/nowhere/x: No such file or directory"
    )


def test_signals_are_back_as_they_were_when_nothing_was_started():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    launch(["/nowhere/x"], {}, tick=lambda: None)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == before


def test_two_late_interrupts_do_not_cost_the_last_records_and_a_third_ends_tm(program):
    path = program("""
        import os, signal, sys
        from trainmeter_core.outside.launch import launch
        launch(["true"], dict(os.environ), tick=lambda: None)
        for n in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            print("written", n, flush=True)
    """)
    done = run([sys.executable, path])
    assert done.stdout == b"written 0\nwritten 1\n"
    assert done.returncode == -signal.SIGINT

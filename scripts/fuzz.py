"""Feeds damaged files to every reader, as often as asked: each may raise the errors it promises, and take a second.

    python scripts/fuzz.py --executions 1000000            the nightly profile
    python scripts/fuzz.py "wandb file" --executions 10000
    python scripts/fuzz.py --atheris "event file" -max_total_time=600     guided by coverage, where atheris is installed

What breaks a reader is written to tests/corpus/<reader>/, which `tests/fuzz` reads from then on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.fuzz import fuzz_readers  # noqa: E402

CORPUS = ROOT / "tests" / "corpus"
SLOWEST_S = 1.0
MOST_BYTES = 2 << 30


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name.replace(" ", "-")).glob("*"))] or [b""]


def keep(name: str, data: bytes) -> Path:
    path = CORPUS / name.replace(" ", "-") / ("broke-" + hashlib.sha256(data).hexdigest()[:12])
    path.write_bytes(data)
    return path


def tried(name: str, data: bytes) -> str | None:
    """What is wrong with how a reader took this; None when nothing is."""
    reader = fuzz_readers.READERS[name]
    began = time.process_time()
    try:
        reader.read(data)
    except reader.allowed:
        pass
    except Exception as error:  # noqa: BLE001 - what it is for
        return f"{type(error).__name__}: {str(error)[:200]}"
    seconds = time.process_time() - began
    return f"{seconds:.1f} s of a processor for {len(data)} bytes" if seconds > SLOWEST_S else None


def fuzz(name: str, executions: int, seconds: float, seed: int) -> dict[str, object]:
    chance, corpus = random.Random(seed), corpus_of(name)
    broken: dict[str, str] = {}
    began = time.monotonic()
    done = 0
    while done < executions and time.monotonic() - began < seconds:
        data = fuzz_readers.mutated(chance.choice(corpus), chance, chance.choice(corpus))
        wrong = tried(name, data)
        done += 1
        if wrong and wrong[:60] not in broken and len(broken) < 20:
            broken[wrong[:60]] = str(keep(name, data))
            print(f"{name}: {wrong}: {broken[wrong[:60]]}", file=sys.stderr, flush=True)
    return {"reader": name, "executions": done, "seconds": round(time.monotonic() - began, 1), "broken": broken}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", help=", ".join(fuzz_readers.READERS))
    parser.add_argument("--executions", type=int, default=10_000, help="of each reader")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most, for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", metavar="READER", help="guided by coverage; other options go to libFuzzer")
    parser.add_argument("--out", type=Path, help="the counts as JSON lines, appended")
    given, rest = parser.parse_known_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if given.atheris:
        guided(given.atheris, rest)
    broken = False
    for name in given.readers or fuzz_readers.READERS:
        found = fuzz(name, given.executions, given.seconds, given.seed)
        broken = broken or bool(found["broken"])
        print(json.dumps(found), flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
    sys.exit(broken)


def guided(name: str, options: list[str]) -> None:
    import atheris

    atheris.instrument_all()

    def once(data: bytes) -> None:
        wrong = tried(name, data)
        if wrong:
            keep(name, data)
            raise RuntimeError(wrong)

    kept = CORPUS / name.replace(" ", "-")
    found = ROOT / "build" / "fuzz" / kept.name  # what libFuzzer found worth going on from, this time and before
    found.mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], *options, str(found), str(kept)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

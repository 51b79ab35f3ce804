"""What the user's tracker holds is the same with and without `tm`; ours stands beside it, and its numbers are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tb import reading

WRITERS = {"torch": "torch.utils.tensorboard", "tensorboardX": "tensorboardX"}
CASES = {
    **{name: ("writer_loop", (package, "{out}")) for name, package in WRITERS.items()},
    "hf_trainer": ("hf_trainer", ("{out}",)),
    "lightning": ("lightning_fit", ("{out}",)),
}


@pytest.fixture(params=list(CASES))
def pair(request, launch):
    program, arguments = CASES[request.param]
    return launch.pair(program, *arguments)


def directories(folder: Path) -> list[Path]:
    return sorted({path.parent for path in folder.rglob("*tfevents*")})


def users(folder: Path) -> list[tuple[int, str, bytes]]:
    """Every value that the user logged: step, tag, and the value by its bytes; the clock's speeds left out."""
    told = []
    for directory in directories(folder):
        for event in reading.user_events(directory):
            for value in event.summary.value:
                if value.tag.endswith(("runtime", "_per_second")) or value.tag in ("args/text_summary", "epoch_time"):
                    continue
                told.append((event.step, value.tag, value.SerializeToString()))
    return told


def test_the_users_scalars_weights_and_losses_are_the_same(pair):
    assert pair.tm.stdout == pair.bare.stdout
    assert users(pair.tm.out) == users(pair.bare.out)
    assert len(users(pair.bare.out)) >= 9


def test_no_event_file_is_added_beside_the_users(pair):
    assert len(list(pair.tm.out.rglob("*tfevents*"))) == len(list(pair.bare.out.rglob("*tfevents*")))
    assert not (pair.tm.directory / "tb").exists()


def test_our_rows_stand_in_the_users_own_run(pair):
    rows = [row for directory in directories(pair.tm.out) for row in reading.rows(directory)]
    assert rows
    _, last = rows[-1]
    assert last["trainmeter/step"] == pair.tm.value("data.steps")
    assert last["trainmeter/tokens"] == pair.tm.value("data.tokens")
    assert last["trainmeter/samples"] == pair.tm.value("data.samples")
    assert last["trainmeter/flops"] == pair.tm.value("compute.flops.torchtitan")
    for _, row in rows:
        shares = [value for name, value in row.items() if name.startswith("trainmeter/time/")]
        assert sum(shares) == pytest.approx(100, abs=0.1)
        assert (
            row["trainmeter/tokens"] * pair.tm.value("data.steps")
            == pair.tm.value("data.tokens") * row["trainmeter/step"]
        )


def test_the_log_directory_that_tm_names_is_the_users(pair):
    [tracker] = pair.tm.passport["identity"]["trackers"]
    assert tracker["tracker"] == "tensorboard"
    assert Path(tracker["where"]["logdir"]).resolve() in [directory.resolve() for directory in directories(pair.tm.out)]
    assert f"tensorboard --logdir {tracker['where']['logdir']}" in pair.tm.stderr


def test_the_losses_reach_the_passport(pair):
    assert pair.tm.passport["losses"]
    for loss in pair.tm.passport["losses"].values():
        assert loss["best"]["value"]["value"] <= loss["first"]["value"]["value"]

"""A passport is built from a record: exact, finite, with a source for each number and a reason for each gap."""

from __future__ import annotations

import json
import math

import pytest

from tests.known import known
from tests.passport.passport_runs import (
    BYTES,
    PARAMETERS,
    PEAK_TFLOPS,
    RECORDS,
    block,
    cpu_run,
    empty,
    rich,
    split,
    toy_formulas,
    unseen_batches,
)
from trainmeter_core.flops.counted import Counted
from trainmeter_core.passport.build import build, digest
from trainmeter_core.passport.restore import restore
from trainmeter_core.passport.schema import load, problems
from trainmeter_core.passport.sheet import SOURCES
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RankTotals, RunRecord
from trainmeter_core.run_tables import Statistics


@pytest.fixture(params=RECORDS)
def passport(request):
    return build(RECORDS[request.param](), toy_formulas)


def walk(value, path=""):
    """Every value with its path."""
    yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walk(inner, f"{path}.{name}" if path else name)
    if isinstance(value, list):
        for at, inner in enumerate(value):
            yield from walk(inner, f"{path}[{at}]")


def reason(passport, field):
    return next(gap["reason"] for gap in passport["gaps"] if gap["field"] == field)


def test_every_passport_is_valid(passport):
    assert problems(passport) == []


def test_the_schema_is_itself_valid_and_describes_every_field():
    import jsonschema

    schema = load()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["version"]["const"] == "trainmeter-passport/1"
    for path, value in walk(schema):
        if path.rpartition(".")[2] == "properties":
            for name, field in value.items():
                assert field.get("description"), f"{path}.{name}"


def test_the_schema_refuses_what_it_does_not_describe(passport):
    for section in [name for name, value in passport.items() if isinstance(value, dict)]:
        if section == "losses":
            continue
        edited = {**passport, section: {**passport[section], "invented": 1}}
        assert problems(edited), section


def test_every_null_has_a_gap_with_its_reason(passport):
    """The model's own description and the config in it are the user's, and may hold nulls."""
    fields = {gap["field"] for gap in passport["gaps"]}
    nulls = {path for path, value in walk(passport) if value is None and not path.startswith("model.description.")}
    assert nulls <= fields
    assert all(gap["reason"] for gap in passport["gaps"])


def test_every_number_is_finite_and_names_its_unit_and_source(passport):
    for path, value in walk({name: part for name, part in passport.items() if name != "model"}):
        if isinstance(value, dict) and set(value) == {"value", "unit", "source"}:
            assert value["source"] in SOURCES, path
            assert value["unit"], path
        if isinstance(value, float):
            assert math.isfinite(value), path
            assert path.endswith(".value"), f"{path} is a number without unit and source"
    json.dumps(passport, allow_nan=False)


def test_counts_are_exact_integers():
    passport = build(rich(), toy_formulas)
    tokens = 2 * 101 * 4 * 128
    assert passport["data"]["tokens"] == {"value": tokens, "unit": "tokens", "source": "counted"}
    flops = passport["compute"]["flops"]["torchtitan"]["value"]
    assert flops == 2 * 101 * 4 * (6 * PARAMETERS * 128 + 12 * 2 * 64 * 128**2)
    assert isinstance(flops, int)
    assert passport["compute"]["flops_per_token"]["torchtitan"]["value"] == 6 * PARAMETERS + 12 * 2 * 64 * 128


def test_mfu_is_flops_over_steady_seconds_devices_and_peak():
    """By hand: 100 steps of 0.5 s, first step and the tail left out."""
    efficiency = build(rich(), toy_formulas)["efficiency"]
    flops = 2 * 100 * 4 * (6 * PARAMETERS * 128 + 12 * 2 * 64 * 128**2)
    mfu = 100 * flops / (50.0 * 2 * PEAK_TFLOPS * 1e12)
    assert efficiency["mfu_pct"]["value"] == pytest.approx(mfu, rel=1e-12)
    assert efficiency["mfu"]["torchtitan"] == efficiency["mfu_pct"] == efficiency["ladder"]["6_mfu"]
    assert efficiency["mfu"]["hf"]["value"] < mfu
    assert efficiency["tokens_per_s"]["value"] == 2 * 100 * 512 / 50
    assert efficiency["tokens_per_s_per_device"]["value"] == 100 * 512 / 50


def test_a_convention_that_does_not_apply_is_null_with_its_own_reason():
    passport = build(rich(), toy_formulas)
    assert passport["compute"]["flops"]["chinchilla"] is None
    for field in ("compute.flops.chinchilla", "efficiency.mfu.chinchilla"):
        assert reason(passport, field) == "heads are not visible"


def test_a_headline_convention_that_does_not_exist_is_a_gap():
    record = rich()
    record.options.convention = "guess"
    assert reason(build(record, toy_formulas), "efficiency.mfu_pct") == "no convention of this name"


def test_a_cpu_run_without_a_peak_has_flops_and_no_mfu():
    passport = build(cpu_run(), toy_formulas)
    assert passport["compute"]["flops"]["torchtitan"]["value"] > 0
    assert passport["efficiency"]["tflops"]["value"] > 0
    assert passport["efficiency"]["mfu_pct"] is None
    assert "--peak-tflops" in reason(passport, "efficiency.mfu_pct")


def test_a_cpu_run_with_a_peak_has_an_mfu_that_says_who_gave_it():
    record = cpu_run()
    record.options.peak_tflops, record.options.peak_source = 0.5, "user"
    passport = build(record, toy_formulas)
    assert passport["options"]["peak_tflops"]["source"] == "user"
    assert passport["efficiency"]["mfu_pct"]["value"] > 0


def test_an_unknown_gpu_has_no_mfu():
    record = rich()
    record.options.peak_tflops = Absent("not in the table")
    assert build(record, toy_formulas)["efficiency"]["mfu_pct"] is None


def test_ranks_that_were_not_seen_are_assumed_equal_and_said_to_be():
    """Local tokens x world size, spec: assumed equal ranks."""
    passport = build(cpu_run(), toy_formulas)
    assert passport["data"]["tokens"] == {"value": 2 * 11 * 512, "unit": "tokens", "source": "assumed"}
    assert passport["hardware"]["ranks_seen"]["value"] == 1
    whole = build(rich(), toy_formulas)["compute"]["flops"]["hf"]["value"] // 101
    assert passport["compute"]["flops"]["hf"]["value"] == 11 * whole


def test_ranks_that_work_on_one_batch_count_it_once_also_on_nodes_that_were_not_seen():
    """Two of the four groups were seen: twice their tokens, not world size over ranks seen."""
    passport = build(split(), toy_formulas)
    assert passport["data"]["tokens"] == {"value": 4 * 11 * 512, "unit": "tokens", "source": "assumed"}
    whole = build(rich(), toy_formulas)["compute"]["flops"]["hf"]["value"] // 2 // 101
    assert passport["compute"]["flops"]["hf"]["value"] == 4 * 11 * whole


def test_a_node_whose_ranks_count_nothing_knows_no_tokens():
    record = split()
    for totals in record.ranks.values():
        totals.counts = False
    passport = build(record, toy_formulas)
    assert passport["data"]["tokens"] is None
    assert "ranks of other nodes count" in reason(passport, "data.tokens")
    assert passport["data"]["steps"]["value"] == 11


def test_steps_lost_since_the_last_save_that_was_seen_are_assumed():
    assert build(split(), toy_formulas)["time"]["lost_steps"] == {"value": 2, "unit": "steps", "source": "assumed"}


def test_batches_that_were_not_seen_leave_tokens_and_flops_unknown():
    passport = build(unseen_batches(), toy_formulas)
    assert passport["data"]["steps"]["value"] == 5
    assert passport["data"]["tokens"] is None
    assert passport["compute"]["flops"] == {"torchtitan": None}
    assert passport["efficiency"]["tokens_per_s"] is None
    assert passport["efficiency"]["step_time_s"]["value"] == 0.5


def test_shares_of_time_add_up_to_a_hundred():
    time = build(rich(), toy_formulas)["time"]
    assert sum(share["value"] for share in time["shares"].values()) == pytest.approx(100, abs=0.1)
    assert time["shares"]["startup"]["value"] == pytest.approx(100 * 20 / 124)
    assert time["shares"]["checkpoint"]["value"] == pytest.approx(100 * 3 / 124)


def test_a_kind_of_time_that_cannot_be_seen_is_no_zero():
    passport = build(cpu_run(), toy_formulas)
    shares = passport["time"]["shares"]
    assert shares["data_wait"] is None
    assert sum(share["value"] for share in shares.values() if share) == pytest.approx(100, abs=0.1)


def test_restarts_and_the_end_are_told():
    passport = build(cpu_run(), toy_formulas)
    assert passport["time"]["restarts"]["value"] == 2
    assert passport["ends"] == {"how": "killed", "status": {"value": 9, "unit": "signal", "source": "measured"}}
    record = cpu_run()
    record.end.signal, record.end.code = Absent("ended by itself"), 3
    assert build(record, toy_formulas)["ends"]["how"] == "crashed"
    assert build(empty(), toy_formulas)["ends"]["how"] is None


def test_a_loss_that_was_never_finite_is_null():
    passport = build(cpu_run(), toy_formulas)
    assert passport["losses"]["loss"]["first"] == {"value": None, "step": None}
    assert reason(passport, "losses.loss.best.value") == "not finite"


def test_lost_step_records_are_told():
    record = rich()
    record.rank(0).dropped_records = 7
    passport = build(record, toy_formulas)
    assert "7 step records were lost" in reason(passport, "data")


def test_totals_that_are_already_over_all_ranks_are_taken_as_they_are():
    """A tracker knows the run's tokens, not the ranks'."""
    record = RunRecord()
    record.world_size = 8
    record.summed = RankTotals()
    record.summed.add(block(10))
    assert build(record, toy_formulas)["data"]["tokens"] == {"value": 10 * 512, "unit": "tokens", "source": "counted"}


def test_energy_is_the_sum_of_the_gpus_own_counters():
    assert build(rich(), toy_formulas)["energy"]["gpu_kwh"]["value"] == pytest.approx(500_000 / 3.6e6)


def test_flops_required_follow_the_budget():
    per_token = 6 * PARAMETERS + 12 * 2 * 64 * 128
    assert build(rich(), toy_formulas)["compute"]["required"]["value"] == 20_000_000 * per_token
    record = rich()
    record.options.budget_flops = 1e22
    assert build(record, toy_formulas)["compute"]["required"]["value"] == 1e22


@pytest.mark.parametrize(
    ("budget_source", "source"), [("user", "user"), ("transformers max_steps", "assumed"), (Absent("x"), "user")]
)
def test_a_goal_that_the_framework_set_is_not_called_the_users(budget_source, source):
    record = rich()
    record.options.budget_source = budget_source
    passport = build(record, toy_formulas)
    assert passport["options"]["budget_tokens"]["source"] == source
    assert build(restore(passport), toy_formulas)["options"] == passport["options"]


def test_the_digest_tells_any_edit():
    passport = build(rich(), toy_formulas)
    assert passport["digest"] == digest(passport)
    assert digest({**passport, "gaps": []}) != passport["digest"]


def test_a_description_too_long_for_a_passport_is_left_out():
    record = rich()
    record.model = {"x": "y" * (1 << 19)}
    passport = build(record, toy_formulas)
    assert passport["model"]["description"] is None
    assert problems(passport) == []


def test_building_twice_gives_the_same(passport):
    del passport
    assert build(rich(), toy_formulas) == build(rich(), toy_formulas)


def test_the_gpus_of_nodes_that_were_not_seen_are_assumed_to_be_like_those_that_were():
    """Two nodes of two ranks and two GPUs each, and one node's log: an MFU over two GPUs would be twice too high."""
    record = rich()
    record.world_size = 4
    assert build(record, toy_formulas)["hardware"]["devices"] == {"value": 4, "unit": "devices", "source": "assumed"}
    seen = build(rich(), toy_formulas)["efficiency"]["mfu_pct"]["value"]
    assert build(record, toy_formulas)["efficiency"]["mfu_pct"]["value"] == pytest.approx(seen)


def test_the_ladder_is_the_mean_over_gpus_of_the_steady_part():
    """30 and 20 percent; OFU is the mean of the samples' own products with their clocks."""
    ladder = build(rich(), toy_formulas)["efficiency"]["ladder"]
    assert ladder["3_tensor_active"]["value"] == 25
    assert ladder["4_ofu"]["value"] == pytest.approx(25 * 1800 / 1830)


def test_the_models_intensity_is_steady_flops_over_the_fewest_bytes():
    """Of each rank: 4 x 128 tokens a step over 2 * 1,000,000 * 2 bytes read and 4 * 1,000,003 * 2 of its weights."""
    flops = 4 * (6 * PARAMETERS * 128 + 12 * 2 * 64 * 128**2)
    intensity = build(rich(), toy_formulas)["efficiency"]["intensity"]["model"]
    assert intensity["value"] == flops / (4_000_000 + 8_000_024)
    assert (intensity["unit"], intensity["source"]) == ("FLOP/byte", "formula")


def test_ranks_that_were_not_seen_move_their_own_bytes():
    """One of two is seen: intensity stays that of one rank."""
    record = cpu_run()
    record.model = {"class": "Toy", "bytes": BYTES}
    one = build(record, toy_formulas)["efficiency"]["intensity"]["model"]["value"]
    assert one == build(rich(), toy_formulas)["efficiency"]["intensity"]["model"]["value"]


def test_a_model_described_without_bytes_has_no_intensity_and_says_so():
    record = rich()
    record.model = {"class": "Toy"}
    passport = build(record, toy_formulas)
    assert passport["efficiency"]["intensity"]["model"] is None
    assert "bytes of its weights" in reason(passport, "efficiency.intensity.model")


def test_counters_that_are_stuck_give_no_rungs_and_a_verdict():
    record = rich()
    for readings in record.steady_gpus.table.values():
        for name in ("graphics_util_pct", "sm_active_pct", "tensor_active_pct", "dram_active_pct", "ofu_pct"):
            readings[name] = Statistics(20, 0.0, 0.0, 0.0)
    passport = build(record, toy_formulas)
    ladder = {name: rung and rung["value"] for name, rung in passport["efficiency"]["ladder"].items()}
    assert (ladder["1_gpu_util"], ladder["2_sm_active"], ladder["4_ofu"]) == (99, None, None)
    assert "counters_stuck" in [verdict["code"] for verdict in passport["verdicts"]]
    assert "stuck at 0" in reason(passport, "efficiency.ladder.3_tensor_active")


def test_hfu_is_what_was_counted_over_the_steady_part():
    """8 N T per micro-batch were counted: all of the model recomputed once more than `hf`, which counts 6 N T."""
    passport = build(rich(), toy_formulas)
    compute, steady = passport["compute"], passport["steady"]
    assert 6 * compute["counted"]["value"] == 8 * compute["flops"]["hf"]["value"]
    assert compute["counted"]["source"] == compute["steady_executed"]["source"] == "counted"
    available = steady["seconds"]["value"] * 2 * PEAK_TFLOPS * 1e12
    expected = 100 * compute["steady_executed"]["value"] / available
    assert math.isclose(passport["efficiency"]["hfu_pct"]["value"], expected)
    assert passport["efficiency"]["ladder"]["5_hfu"] == passport["efficiency"]["hfu_pct"]


@pytest.mark.parametrize(
    ("counted", "field", "why"),
    [
        (Counted(), "data.counted", "--count"),
        (Counted(absent="counting took too long"), "compute.counted", "too long"),
        (Counted(((4, 64, 0, 10),), (), ""), "compute.counted", "have other lengths"),
        (Counted(((4, 128, 0, 10),), ("flash_attn::fwd (4 times)",), ""), "efficiency.hfu_pct", "flash_attn::fwd"),
    ],
)
def test_without_a_whole_count_there_is_no_hfu_and_the_reason_is_told(counted, field, why):
    record = rich()
    record.counted = counted
    passport = build(record, toy_formulas)
    assert problems(passport) == []
    assert passport["efficiency"]["hfu_pct"] is None
    assert why in reason(passport, field)


def test_recomputation_that_the_model_shows_gives_an_hfu_without_a_count():
    record = rich()
    record.counted = Counted()
    formulas = known(toy_formulas(record.model))._replace(
        executed_of_sequence=lambda seq_len, _: 8 * PARAMETERS * seq_len
    )
    passport = build(record, lambda _: formulas)
    counted = build(rich(), toy_formulas)
    assert passport["efficiency"]["hfu_pct"] == counted["efficiency"]["hfu_pct"]
    assert passport["compute"]["steady_executed"]["source"] == "formula"
    assert passport["compute"]["counted"] is None

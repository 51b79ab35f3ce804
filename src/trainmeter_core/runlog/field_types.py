"""What a field of a log record may be: each function gives the value, or raises TypeError or ValueError for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.run_tables import At, Loss, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST = 1 << 63
LARGEST = 1e300
LARGEST_SUM = 1e200  # so many as a count can tell are still a number


def as_optional(value: Any, check: Callable[[Any], Any]) -> Any:
    return None if value is None else check(value)


def as_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not an integer")
    return value


def as_count(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not an integer")
    if not 0 <= value < MOST:
        raise ValueError("not a count")
    return value


def as_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    if not -LARGEST < value < LARGEST:  # 1e999 and integers of a thousand digits are valid JSON
        raise ValueError("out of range")
    return value


def as_seconds(value: Any) -> float:
    if type(value) is not float:
        value = float(as_number(value))
    if not 0.0 <= value < LARGEST:
        raise ValueError("not a duration")
    return value  # type: ignore[no-any-return]


def as_positive(value: Any) -> float:
    if as_number(value) <= 0:
        raise ValueError("not positive")
    return float(value)


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def as_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def as_table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def as_array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def as_words(value: Any) -> list[str]:
    return [as_text(word) for word in as_array(value)]


def as_numbered(gpus: Any) -> list[tuple[int, Mapping[str, Any]]]:
    return [(at, as_table(gpu)) for at, gpu in enumerate(as_array(gpus or []))]


def as_batch(entry: Any) -> tuple[int, int, int, int]:
    sequences, seq_len, target_len, calls = (as_count(number) for number in as_array(entry))
    return sequences, seq_len, target_len, calls


def as_logged_at(pair: Any) -> At:
    value, step = as_array(pair)
    return At(as_optional(value, as_number), as_optional(step, as_count))


def as_track(value: Any) -> Loss:
    fields = as_table(value)
    return Loss(
        as_logged_at(fields["first"]),
        as_logged_at(fields["last"]),
        as_logged_at(fields["best"]),
        as_count(fields["count"]),
    )


def as_sums(value: Any) -> Statistics:
    count, *numbers = as_array(value)
    total, low, high = (as_number(number) for number in numbers)
    if max(abs(total), abs(low), abs(high)) > LARGEST_SUM:
        raise ValueError("out of range")
    return Statistics(as_count(count), total, low, high)


def as_table_of_sums(value: Any) -> dict[str, Statistics]:
    return {as_text(name): as_sums(each) for name, each in as_table(value).items()}


IDENTITY_FIELDS: dict[str, Callable[[Any], Any]] = {
    "run_id": as_text,
    "name": as_text,
    "script": as_text,
    "command": as_words,
    "started": as_number,
    "git_commit": as_text,
    "git_dirty": as_flag,
}
BUDGETS = ("budget_tokens", "budget_steps", "budget_flops", "budget_hours", "budget_source")
OPTION_FIELDS: dict[str, Callable[[Any], Any]] = {
    "convention": as_text,
    "peak_tflops": as_positive,
    "peak_source": as_text,
    "peak_dtype": as_text,
    "budget_tokens": as_count,
    "budget_steps": as_count,
    "budget_flops": as_positive,
    "budget_hours": as_positive,
    "budget_source": as_text,
}
HARDWARE_FIELDS: dict[str, Callable[[Any], Any]] = {
    "cpu": as_text,
    "cpu_cores": as_count,
    "memory_bytes": as_count,
    "interconnect": as_text,
    "reference_mhz": as_positive,
    "bandwidth_bytes_per_s": as_positive,
}

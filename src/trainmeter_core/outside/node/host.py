"""What does not change while a run goes on: names, processors, memory, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tree import table

if TYPE_CHECKING:
    from .tree import Tree

_KIB = 1024


def describe_host(tree: Tree) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts about the machine, and the reason for each that is not known.

    host, kernel, os, cpu_model (str) · cpu_threads, cpu_cores, cpu_sockets, numa_nodes, memory_bytes, swap_bytes.
    """
    facts: dict[str, Any] = {
        "host": tree.maybe("proc/sys/kernel/hostname"),
        "kernel": tree.maybe("proc/sys/kernel/osrelease"),
        "os": _os_name(tree.maybe("etc/os-release") or ""),
        "numa_nodes": sum(name.removeprefix("node").isdecimal() for name in tree.names("sys/devices/system/node"))
        or None,
    }
    facts |= describe_cpu(tree.maybe("proc/cpuinfo") or "")
    kib = table(tree.maybe("proc/meminfo") or "", ":")
    facts["memory_bytes"] = kib["MemTotal"] * _KIB if "MemTotal" in kib else None
    facts["swap_bytes"] = kib["SwapTotal"] * _KIB if "SwapTotal" in kib else None
    gaps = {name: "not shown by this kernel" for name, value in facts.items() if value is None}
    return {name: value for name, value in facts.items() if value is not None}, gaps


def describe_cpu(cpuinfo: str) -> dict[str, Any]:
    """Model, threads, cores and sockets of /proc/cpuinfo; Arm names no model, only numbers of maker and part."""
    blocks = [
        {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())}
        for block in cpuinfo.split("\n\n")
    ]
    threads = [block for block in blocks if "processor" in block]
    if not threads:
        return {"cpu_model": None, "cpu_threads": None, "cpu_cores": None, "cpu_sockets": None}
    first = threads[0]
    model = first.get("model name")
    if model is None and "CPU part" in first:
        model = f"Arm implementer {first.get('CPU implementer', '?')} part {first['CPU part']}"
    cores = {(block.get("physical id"), block["core id"]) for block in threads if "core id" in block}
    sockets = {block["physical id"] for block in threads if "physical id" in block}
    return {
        "cpu_model": model,
        "cpu_threads": len(threads),
        "cpu_cores": len(cores) or None,
        "cpu_sockets": len(sockets) or None,
    }


def _os_name(text: str) -> str | None:
    for line in text.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")
    return None

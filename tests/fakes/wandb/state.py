"""What a W&B server knows of a run: its lines, config, summary and files, as they arrived."""

from __future__ import annotations

import base64
import json
from typing import Any

Row = dict[str, Any]


class Run:
    """One run. `appended` keeps lines in their order of arrival, `lines` by the offset that the client gave."""

    def __init__(self, entity: str, project: str, name: str) -> None:
        self.entity = entity
        self.project = project
        self.name = name
        self.storage_id = base64.b64encode(f"Run:v1:{name}:{project}:{entity}".encode()).decode()
        self.display_name = name
        self.config: Row = {}
        self.notes: str | None = None
        self.group: str | None = None
        self.job_type: str | None = None
        self.tags: list[str] = []
        self.summary_upsert: Row = {}
        self.lines: dict[str, dict[int, str]] = {}
        self.appended: dict[str, list[str]] = {}
        self.files: dict[str, bytes] = {}
        self.uploaded: list[str] = []
        self.exitcode: int | None = None
        self.complete = False
        self.upserts = 0

    def stream(self, request: Row) -> None:
        """Take one file_stream request."""
        for name, chunk in (request.get("files") or {}).items():
            rows = chunk.get("content") or []
            self.appended.setdefault(name, []).extend(rows)
            by_offset = self.lines.setdefault(name, {})
            for place, line in enumerate(rows):
                by_offset[int(chunk.get("offset") or 0) + place] = line
        self.uploaded += request.get("uploaded") or []
        if request.get("complete"):
            self.complete, self.exitcode = True, request.get("exitcode")

    def upsert(self, given: Row) -> None:
        """Take one UpsertBucket mutation."""
        self.upserts += 1
        self.config.update(json.loads(given.get("config") or "{}"))
        self.summary_upsert.update(json.loads(given.get("summaryMetrics") or "{}"))
        self.display_name = given.get("displayName") or self.display_name
        self.notes = given.get("notes") or self.notes
        self.group = given.get("groupName") or self.group
        self.job_type = given.get("jobType") or self.job_type
        self.tags = given.get("tags") or self.tags

    @property
    def history(self) -> list[Row]:
        """The rows of the run's history, by their offsets: a line sent twice is one row."""
        return self._json("wandb-history.jsonl")

    @property
    def events(self) -> list[Row]:
        """The rows of the System section."""
        return self._json("wandb-events.jsonl")

    @property
    def summary(self) -> Row:
        """The newest summary."""
        rows = [json.loads(line) for line in self.appended.get("wandb-summary.json", []) if line.strip()]
        return rows[-1] if rows else self.summary_upsert

    @property
    def settings_of_config(self) -> Row:
        """What the client keeps for itself in the config: metric definitions, charts."""
        value: Row = (self.config.get("_wandb") or {}).get("value") or {}
        return value

    def user_config(self) -> Row:
        """The config's values without the client's own."""
        return {name: entry["value"] for name, entry in self.config.items() if name != "_wandb"}

    def _json(self, name: str) -> list[Row]:
        lines = self.lines.get(name, {})
        return [json.loads(lines[offset]) for offset in sorted(lines) if lines[offset].strip()]

"""The GraphQL operations that the client and its public API need, by operation name."""

# ruff: noqa: N802 - the operations have their own names
from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Backend
    from .state import Run as StoredRun

ENTITY = "stub"

Json = dict[str, Any]

_OPERATION = re.compile(r"\b(query|mutation)\s+(\w+)")
_WHEN = "2026-01-01T00:00:00Z"


class Operations:
    """Answers GraphQL requests about a backend's runs; keeps artifacts and saved views."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.artifacts: dict[str, Json] = {}
        self.views: list[Json] = []
        self.counts: dict[str, int] = {}
        self.sweep: Json = {}
        self.trials: list[Json] = []

    def answer(self, request: Json) -> Json:
        """Answer one request; an operation that is not known is noted, and answered with an error."""
        query, given = request.get("query") or "", request.get("variables") or {}
        if isinstance(given.get("input"), dict):
            given = {**given["input"], **{name: value for name, value in given.items() if name != "input"}}
        named = _OPERATION.search(query)
        name = request.get("operationName") or (named.group(2) if named else "?")
        self.counts[name] = self.counts.get(name, 0) + 1
        operation = getattr(self, name, None)
        if operation is None or not name[:1].isupper():
            self.backend.unknown_ops.append(name)
            return {"data": None, "errors": [{"message": f"no operation {name}"}]}
        return {"data": operation(given, query)}

    # --- the server ---------------------------------------------------------------------------------------------

    def Viewer(self, given: Json, query: str) -> Json:
        nobody: Json = {"edges": []}
        return {
            "viewer": {
                "id": "VXNlcjox", "entity": ENTITY, "username": ENTITY, "name": ENTITY, "email": "s@example.invalid",
                "flags": "{}", "admin": False, "teams": nobody, "apiKeys": nobody, "deletedAt": None,
            }
        }  # fmt: skip

    def ProbeServerCapabilities(self, given: Json, query: str) -> Json:
        """What older clients ask first: which fields there are."""
        fields = {"QueryType": ["serverInfo", "viewer"], "MutationType": [], "ServerInfoType": ["cliVersionInfo"]}
        return {kind: {"fields": [{"name": name} for name in names]} for kind, names in fields.items()}

    def ProbeServerSettings(self, given: Json, query: str) -> Json:
        return {"ServerSettingsType": {"fields": []}}

    def InputFields(self, given: Json, query: str) -> Json:
        return {"TypeInfo": {"inputFields": []}}

    GetViewer = QueryViewer = Viewer

    def ServerFeaturesQuery(self, given: Json, query: str) -> Json:
        return {"serverInfo": {"features": []}}

    def ServerInfo(self, given: Json, query: str) -> Json:
        versions = {"min_cli_version": "0.10.0", "max_cli_version": "99.0.0"}
        return {"serverInfo": {"cliVersionInfo": versions, "latestLocalVersionInfo": None, "features": []}}

    def OrganizationCoreWeaveOrganizationID(self, given: Json, query: str) -> Json:
        return {"entity": {"organization": {"coreWeaveOrganizationId": None}}}

    def OrgFeatureFlags(self, given: Json, query: str) -> Json:
        return {"organization": {"featureFlags": []}}

    # --- a run that is being written ----------------------------------------------------------------------------

    def UpsertBucket(self, given: Json, query: str) -> Json:
        backend = self.backend
        run = next((run for run in backend.runs.values() if run.storage_id == given.get("id")), None)
        inserted = (
            run is None and backend.find(given.get("entity"), given.get("project"), given.get("name", "")) is None
        )
        run = run or backend.run(given.get("entity"), given.get("project"), given["name"])
        run.upsert(given)
        bucket = {
            "id": run.storage_id, "name": run.name, "displayName": run.display_name, "description": None,
            "config": json.dumps(run.config), "sweepName": None, "historyLineCount": len(run.history),
            "project": {
                "id": "UHJvamVjdDox", "name": run.project, "entity": {"id": "RW50aXR5OjE=", "name": run.entity},
            },
        }  # fmt: skip
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def RunResumeStatus(self, given: Json, query: str) -> Json:
        run = self._run(given)
        bucket = None
        if run and run.upserts:
            history, events = run.history, run.events
            telemetry = {"t": run.settings_of_config.get("t", {})}
            bucket = {
                "id": run.storage_id, "name": run.name, "displayName": run.display_name,
                "summaryMetrics": json.dumps(run.summary), "logLineCount": len(run.lines.get("output.log", {})),
                "historyLineCount": len(history), "eventsLineCount": len(events),
                "historyTail": json.dumps([json.dumps(row) for row in history[-1:]]),
                "eventsTail": json.dumps([json.dumps(row) for row in events[-1:]]),
                "config": json.dumps(run.config), "tags": run.tags, "notes": run.notes,
                "wandbConfig": json.dumps(telemetry),
            }  # fmt: skip
        entity = {"id": "RW50aXR5OjE=", "name": given.get("entity") or ENTITY}
        return {"model": {"id": "UHJvamVjdDox", "name": given.get("project"), "entity": entity, "bucket": bucket}}

    def RunStoppedStatus(self, given: Json, query: str) -> Json:
        return {"project": {"run": {"stopped": False}}}

    def CreateRunFiles(self, given: Json, query: str) -> Json:
        run = self.backend.run(given.get("entity"), given.get("project"), given["run"])
        where = f"{self.backend.url}/storage/runfile/{run.entity}/{run.project}/{run.name}"
        files = [{"name": name, "uploadUrl": f"{where}/{name}"} for name in given.get("files", [])]
        return {"createRunFiles": {"runID": run.storage_id, "uploadHeaders": [], "files": files}}

    def MarkRunFilesUploaded(self, given: Json, query: str) -> Json:
        return {"markRunFilesUploaded": {"success": True}}

    # --- a run that is read -------------------------------------------------------------------------------------

    def Run(self, given: Json, query: str) -> Json:
        run = self._run(given)
        if run is None:
            return {"project": {"internalId": "1", "run": None}}
        told = {
            "id": run.storage_id, "projectId": "1", "tags": run.tags, "name": run.name, "notes": run.notes,
            "displayName": run.display_name, "sweepName": None, "state": "finished" if run.complete else "running",
            "config": json.dumps(run.config), "group": run.group, "jobType": run.job_type, "commit": None,
            "readOnly": False, "createdAt": _WHEN, "heartbeatAt": _WHEN, "description": None,
            "systemMetrics": json.dumps(run.events[-1] if run.events else {}),
            "summaryMetrics": json.dumps(run.summary), "historyLineCount": len(run.history),
            "user": {"name": ENTITY, "username": ENTITY}, "historyKeys": _history_keys(run),
        }  # fmt: skip
        return {"project": {"internalId": "1", "readOnly": False, "run": told}}

    def RunHistoryKeys(self, given: Json, query: str) -> Json:
        return {"project": {"run": {"historyKeys": _history_keys(self._found(given))}}}

    def RunFullHistory(self, given: Json, query: str) -> Json:
        run = self._found(given)
        rows = run.events if "events(" in query else run.history
        every = max(1, -(-len(rows) // (given.get("samples") or 500)))
        lines = [json.dumps(row) for row in rows[::every]]
        return {"project": {"run": {"history": lines, "events": lines}}}

    def HistoryPage(self, given: Json, query: str) -> Json:
        low, high = given.get("minStep") or 0, given.get("maxStep") or 1 << 60
        rows = [row for row in self._found(given).history if low <= row.get("_step", 0) < high]
        return {"project": {"run": {"history": [json.dumps(row) for row in rows]}}}

    def RunParquetHistory(self, given: Json, query: str) -> Json:
        return {"project": {"run": {"parquetHistory": {"parquetUrls": [], "liveData": self._found(given).history}}}}

    def RunFiles(self, given: Json, query: str) -> Json:
        run = self._found(given)
        wanted = given.get("fileNames") or list(run.files)
        where = f"{self.backend.url}/storage/runfile/{run.entity}/{run.project}/{run.name}"
        nodes = [
            {
                "id": "RmlsZQ", "name": name, "url": f"{where}/{name}", "directUrl": f"{where}/{name}", "md5": "",
                "sizeBytes": len(run.files[name]), "mimetype": "text/plain", "updatedAt": _WHEN,
            }
            for name in wanted
            if name in run.files
        ]  # fmt: skip
        edges = [{"node": node, "cursor": str(place)} for place, node in enumerate(nodes)]
        page = {"endCursor": None, "hasNextPage": False}
        return {
            "project": {
                "internalId": "1",
                "run": {"fileCount": len(nodes), "files": {"edges": edges, "pageInfo": page}},
            }
        }

    # --- a sweep's agent ----------------------------------------------------------------------------------------

    def SweepWithRuns(self, given: Json, query: str) -> Json:
        told = {
            "id": "U3dlZXA", "name": given["sweep"], "method": "grid", "state": "RUNNING", "description": None,
            "config": json.dumps(self.sweep), "createdAt": _WHEN, "heartbeatAt": _WHEN, "updatedAt": _WHEN,
            "earlyStopJobRunning": False, "bestLoss": None, "controller": None, "scheduler": None,
            "runs": {"edges": []},
        }  # fmt: skip
        return {"project": {"sweep": told if self.sweep else None}}

    def CreateAgent(self, given: Json, query: str) -> Json:
        return {"createAgent": {"agent": {"id": "QWdlbnQ"}}}

    def Heartbeat(self, given: Json, query: str) -> Json:
        """One trial at a time; when none is left, the agent is told to end."""
        commands: list[Json] = []
        if not json.loads(given.get("runState") or "{}"):
            commands = [self.trials.pop(0)] if self.trials else [{"type": "exit"}]
        return {"agentHeartbeat": {"agent": {"id": "QWdlbnQ"}, "commands": json.dumps(commands)}}

    # --- artifacts and views ------------------------------------------------------------------------------------

    def CreateArtifact(self, given: Json, query: str) -> Json:
        identity = "QXJ0" + hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12]
        self.artifacts[identity] = {"given": given, "committed": False, "files": {}}
        sequence = {"id": "U2Vx", "latestArtifact": None}
        return {"createArtifact": {"artifact": {"id": identity, "state": "PENDING", "artifactSequence": sequence}}}

    def ArtifactType(self, given: Json, query: str) -> Json:
        name = str(given.get("name") or given.get("artifactName") or "")
        kind = next((each["given"].get("artifactTypeName") for each in self.artifacts.values()
                     if each["given"].get("artifactCollectionName") == name.partition(":")[0]), None)  # fmt: skip
        return {"project": {"artifact": {"artifactType": {"name": kind}} if kind else None}}

    def CreateArtifactManifest(self, given: Json, query: str) -> Json:
        identity, name = given.get("artifactID"), given.get("name")
        url = f"{self.backend.url}/storage/manifest/{identity}/{name}"
        file: Json = {"id": "RmlsZQ", "name": name, "displayName": name, "uploadUrl": url, "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "TWFuOg", "file": file}}}

    def UpdateArtifactManifest(self, given: Json, query: str) -> Json:
        url = f"{self.backend.url}/storage/manifest/{given.get('artifactID') or 'unknown'}/final"
        file: Json = {"id": "RmlsZQ", "name": "m", "displayName": "m", "uploadUrl": url, "uploadHeaders": []}
        return {"updateArtifactManifest": {"artifactManifest": {"id": given.get("artifactManifestID"), "file": file}}}

    def CreateArtifactFiles(self, given: Json, query: str) -> Json:
        edges = []
        for file in given.get("artifactFiles") or []:
            identity, name = file["artifactID"], file["name"]
            self.artifacts[identity]["files"][name] = file
            node = {
                "id": "RmlsZQ", "name": name, "displayName": name, "uploadHeaders": [], "storagePath": "x/" + name,
                "uploadUrl": f"{self.backend.url}/storage/artifact/{identity}/{name}", "uploadMultipartUrls": None,
                "artifact": {"id": identity},
            }  # fmt: skip
            edges.append({"node": node})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def CommitArtifact(self, given: Json, query: str) -> Json:
        self.artifacts[given["artifactID"]]["committed"] = True
        return {"commitArtifact": {"artifact": {"id": given.get("artifactID"), "digest": "d"}}}

    def UseArtifact(self, given: Json, query: str) -> Json:
        artifact = {
            "id": given.get("artifactID"), "digest": "d", "description": "", "state": "COMMITTED",
            "createdAt": _WHEN, "metadata": "{}",
        }  # fmt: skip
        return {"useArtifact": {"artifact": artifact}}

    def View(self, given: Json, query: str) -> Json:
        where = (given.get("entityName"), _project(given), given.get("viewName"))
        found = [each for each in self.views if (each["entityName"], each["projectName"], each["name"]) == where]
        edges = [{"node": {name: each[name] for name in ("id", "displayName", "spec")}} for each in found]
        return {"project": {"allViews": {"edges": edges}}}

    def UpsertView2(self, given: Json, query: str) -> Json:
        known = next((each for each in self.views if each["id"] == given.get("id")), None)
        if known is None:
            known = {"id": f"Vmlldzo{len(self.views) + 1}"}
            self.views.append(known)
        inserted = len(known) == 1
        known.update({name: value for name, value in given.items() if name != "id"})
        project = {"name": given.get("projectName"), "entityName": given.get("entityName")}
        view = {key: known.get(key) for key in ("id", "name", "displayName", "type", "spec", "description")}
        return {"upsertView": {"view": {"project": project, **view}, "inserted": inserted}}

    def _run(self, given: Json) -> StoredRun | None:
        name = given.get("name") or given.get("runName") or given.get("run") or ""
        return self.backend.find(given.get("entity") or given.get("entityName"), _project(given), name)

    def _found(self, given: Json) -> StoredRun:
        run = self._run(given)
        assert run is not None, given
        return run


def _project(given: Json) -> str | None:
    return given.get("project") or given.get("projectName")


def _history_keys(run: StoredRun) -> Json:
    kinds = {int: "number", float: "number", str: "string"}
    keys: dict[str, Json] = {}
    for row in run.history:
        for name, value in row.items():
            entry = keys.setdefault(
                name, {"typeCounts": [{"type": kinds.get(type(value), "map"), "count": 0}], "monotonic": False}
            )
            entry["typeCounts"][0]["count"] += 1
    return {"keys": keys, "lastStep": max((row.get("_step", 0) for row in run.history), default=0), "sets": []}

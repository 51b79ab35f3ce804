"""`tm passport`: what a run spent and how well it used its hardware, from its directory or from its tracker."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainmeter_core.json_text import parse
from trainmeter_core.passport import card as cards
from trainmeter_core.passport import compare, markdown, overlay, page, schema
from trainmeter_core.passport import svg as pictures
from trainmeter_core.passport.build import build
from trainmeter_core.passport.check import check
from trainmeter_core.runlog.format import PASSPORT_FILE
from trainmeter_core.runlog.locate import find_run, latest_run
from trainmeter_core.runlog.read import read_run

if TYPE_CHECKING:
    from trainmeter_core.run_record import RunRecord

Passport = dict[str, Any]
_LARGEST = 64 << 20


def open_elsewhere(ref: str, server: str | None = None) -> RunRecord | None:
    """Read a run that is not a run directory; None when no tracker knows the reference. Raises ValueError."""
    from trainmeter_core.plugins import each_plugin, find_plugins

    found, broken = find_plugins()
    failed = [f"{name}: {why}" for name, why in broken]
    for plugin in found:
        try:
            for manager in each_plugin([plugin]):
                record: RunRecord | None = manager.hook.open_run(ref=ref, server=server)
                if record is not None:
                    return record
        except ValueError:  # the adapter's own one clear line
            raise
        except Exception as error:  # noqa: BLE001 - a third party's adapter; the next one may know the run
            failed.append(f"{plugin.name}: {type(error).__name__}: {error}")
    for line in failed:
        click.echo(f"tm: the adapter {line}", err=True)
    return None


def load(ref: str | None, server: str | None = None) -> Passport:
    """The passport of the latest run, a run directory, a passport file, or a tracker's run.

    Raises ValueError with one clear line.
    """
    try:
        if ref is not None and Path(ref).is_file() and ref.endswith(".json"):
            return read_passport(Path(ref))
        return of_directory(latest_run() if ref is None else find_run(ref))
    except LookupError as error:  # no such run here: it may be a tracker's
        record = open_elsewhere(ref or "", server)
        if record is None:
            raise ValueError(f"{error.args[0]}, and no tracker knows it") from error
        return build(record)


def of_directory(directory: Path) -> Passport:
    """The passport in a run directory, or one built from the log while there is none."""
    try:
        return read_passport(directory / PASSPORT_FILE)
    except FileNotFoundError:  # the run goes on, or tm was killed
        return build(read_run(directory))


def read_passport(path: Path) -> Passport:
    """A passport from its file. Raises ValueError with one line when it is not one."""
    try:
        passport: Passport = parse(_bytes(path), finite=True)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    problems = schema.problems(passport)
    if problems:
        raise ValueError(f"{path} is not a trainmeter passport: {problems[0]}")
    return passport


def _bytes(path: Path) -> bytes:
    """The file's content. Raises ValueError for one that is larger than any passport."""
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError("larger than a passport is")
    return content


def document(
    passports: list[Passport], usd_per_gpu_hour: float | None, kg_per_kwh: float | None, pictures: str = ""
) -> str:
    """Markdown of one passport in full, or of several as one table; factors of the viewer's come after it.

    `pictures` is the prefix of picture files that lie beside the document.
    """
    if len(passports) > 1:
        return compare.table(passports)
    extra = overlay.section(passports[0], usd_per_gpu_hour, kg_per_kwh)
    tags = cards.picture_tags(passports[0], pictures) if pictures else ""
    return markdown.render(passports[0], tags) + ("\n" + extra if extra else "")


def written(
    form: str, passports: list[Passport], usd_per_gpu_hour: float | None, kg_per_kwh: float | None, pictures: str
) -> str:
    """The document in a form: json, html, card or md. Raises ValueError for several passports in a form for one."""
    if form == "json":
        return json.dumps(passports if len(passports) > 1 else passports[0], indent=1) + "\n"
    if form in ("html", "card") and len(passports) > 1:
        raise ValueError(f"--{form} shows one run, not {len(passports)}")
    if form == "html":
        return page.render(passports[0])
    if form == "card":
        extra = overlay.section(passports[0], usd_per_gpu_hour, None)
        return cards.card(passports[0], kg_per_kwh, pictures) + ("\n" + extra if extra else "")
    return document(passports, usd_per_gpu_hour, kg_per_kwh, pictures)


def report(passport: Passport) -> str:
    """What a check found, one line per field that does not hold; empty when everything does."""
    return "".join(
        f"{each.field}: the passport says {each.said}, it follows {each.follows}\n" for each in check(passport)
    )


def _write(text: str, out: Path | None, draw: bool) -> None:
    if out is not None:
        out.write_text(text, encoding="utf-8", errors="backslashreplace")
    elif draw and _is_terminal():
        _pretty(text)
    else:
        sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
        sys.stdout.flush()


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _pretty(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@click.command("passport")
@click.argument("refs", nargs=-1, metavar="[REF]...")
@click.option("--json", "as_json", is_flag=True, help="the passport as JSON")
@click.option("--md", "as_markdown", is_flag=True, help="Markdown for a model card")
@click.option("--card", "as_card", is_flag=True, help="a Hugging Face model card: Markdown that begins with metadata")
@click.option("--html", "as_html", is_flag=True, help="one HTML page without scripts, light and dark")
@click.option("--tracking-uri", metavar="URI", help="the tracker's server, where its own settings do not say")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write to FILE (.json, .html or .md, this one with its pictures beside it)",
)
@click.option(
    "--svg", type=click.Path(file_okay=False, path_type=Path), help="also write time.svg and ladder.svg to DIR"
)
@click.option(
    "--check", "checks", is_flag=True, help="recompute every derived number; exit code 1 if one does not hold"
)
@click.option("--usd-per-gpu-hour", type=click.FloatRange(min=0), help="show the cost at this price; never stored")
@click.option("--kgco2-per-kwh", type=click.FloatRange(min=0), help="show the emissions at this factor; never stored")
def command(
    *,
    refs: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    as_card: bool,
    as_html: bool,
    tracking_uri: str | None,
    out: Path | None,
    svg: Path | None,
    checks: bool,
    usd_per_gpu_hour: float | None,
    kgco2_per_kwh: float | None,
) -> None:
    """What a run spent, and how well it used its hardware.

    REF is a run directory, a run id or the beginning of one, a passport.json, or a run in a tracker; by default the
    latest run. Several make a table.
    """
    flags = {"json": as_json, "md": as_markdown, "card": as_card, "html": as_html}
    asked = [name for name, given in flags.items() if given]
    if len(asked) > 1:
        raise click.UsageError(f"--{asked[0]} and --{asked[1]} exclude each other")
    form = asked[0] if asked else {".json": "json", ".html": "html"}.get(out.suffix if out is not None else "", "md")
    if form in ("json", "html") and (usd_per_gpu_hour is not None or kgco2_per_kwh is not None):
        raise click.UsageError(f"prices and factors are no part of a passport: leave out --{form}")
    try:
        passports = [load(ref, tracking_uri) for ref in refs or (None,)]
        if checks:
            found = "".join(report(passport) for passport in passports)
            _write(found or "every derived number holds\n", out, draw=False)
            sys.exit(1 if found else 0)
        beside = out.stem if out is not None and form in ("md", "card") and len(passports) == 1 else ""
        text = written(form, passports, usd_per_gpu_hour, kgco2_per_kwh, beside)
        if beside and out is not None:
            for name, picture in cards.pictures_of(passports[0], beside).items():
                out.with_name(name).write_text(picture, encoding="utf-8")
        if svg is not None:
            svg.mkdir(parents=True, exist_ok=True)
            (svg / "time.svg").write_text(pictures.time_shares(passports[0]), encoding="utf-8")
            (svg / "ladder.svg").write_text(pictures.ladder(passports[0]), encoding="utf-8")
        _write(text, out, draw=not asked)
    except BrokenPipeError:  # `tm passport | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:  # a reference that fits nothing, a file that cannot be read or written
        click.echo(f"tm passport: {error}", err=True)
        sys.exit(2)

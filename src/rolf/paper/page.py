"""One self-contained page: figures, tables, verdicts, configuration. No network, no scripts."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolf.paper.claims import AGREES, OPEN, Claim
from rolf.paper.constants import Measured
from rolf.paper.figures import Figure

#: how the names of pictures for narrow screens end
NARROW = "-narrow.png"

STYLE = """
:root { color-scheme: light; --ink: #1c1c1c; --soft: #5a5a5a; --line: #dcdcdc; --tint: #f6f7f9; }
* { box-sizing: border-box; }
body { font: 16px/1.55 Georgia, "Times New Roman", serif; color: var(--ink); margin: 0 auto;
  max-width: 76rem; padding: 2.5rem 1.5rem 5rem; background: #fff; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 3.2rem 0 .4rem; padding-top: .6rem;
  border-top: 1px solid var(--line); }
p { max-width: 46rem; }
nav { font: 14px/1.9 system-ui, sans-serif; margin: 1.4rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; color: #0072B2; text-decoration: none; }
nav a:hover { text-decoration: underline; }
figure { margin: 1.2rem 0; }
figure img { max-width: 100%; height: auto; display: block; }
figcaption, .soft { color: var(--soft); font-size: .92rem; max-width: 52rem; }
table { border-collapse: collapse; font: 13.5px/1.45 system-ui, sans-serif; margin: 1rem 0; }
th, td { padding: .32rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; border-bottom: 2px solid var(--ink); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th.text { text-align: left; }
td.text { text-align: left; max-width: 30rem; }
td.best { font-weight: 700; }
.scroll { overflow-x: auto; }
.agrees, .differs, .open { font-weight: 600; white-space: nowrap; }
.open::before { content: "?\\00a0"; } .open { color: var(--soft); }
.agrees::before { content: "\\2713\\00a0"; } .agrees { color: #00734f; }
.differs::before { content: "\\2717\\00a0"; } .differs { color: #a83c00; }
pre { background: var(--tint); padding: 1rem; overflow-x: auto; font-size: 12.5px;
  line-height: 1.4; }
details summary { cursor: pointer; font: 14px system-ui, sans-serif; color: #0072B2; }
@media (max-width: 640px) {
  body { padding: 1.2rem 1rem 3rem; }
  h1 { font-size: 1.5rem; }
  h1, h2, p { overflow-wrap: break-word; }
  nav a { display: inline-block; white-space: normal; padding: .25rem 0; }
  th, td { padding: .32rem .5rem; }
  td:not(.text):not(:first-child) { white-space: nowrap; }
  td.text:first-child, td.text:last-child { min-width: 10rem; }
  .scroll { margin-right: -1rem; }
}
@media print { body { padding: 0; } nav, details { display: none; } h2 { break-after: avoid; } }
"""


def render(
    figures: Sequence[Figure],
    done: Mapping[str, Mapping[str, Any]],
    claims: Sequence[Claim],
    measured: Sequence[Measured],
    folder: Path,
    about: Mapping[str, Any],
) -> str:
    """The page as HTML."""
    links = " ".join(f'<a href="#{f.key}">{_text(f.title.split(":")[0])}</a>' for f in figures)
    sections = "".join(_section(figure, done[figure.key], folder) for figure in figures)
    versions = ", ".join(f"{name} {value}" for name, value in about["versions"].items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Linear bandits with partially observable features, reproduced</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>Linear bandits with partially observable features, reproduced</h1>
<p>An agent chooses among arms whose measured features do not tell the whole story. RoLF (Kim, Park,
Iyengar, Zeevi and Oh, ICML 2025) adds to the features a basis of what they cannot express, so that
no arm is misjudged for ever; it explores by force at first and with probability t<sup>-1/2</sup>
afterwards.</p>
<p><strong>What to use.</strong> RoLF-Bayes, which is ours: it learns from the rewards how far the
features can be trusted, and has nothing to tune. Of the paper's own policies RoLF-Ridge with K
forced rounds and coupling around the action. Where the noise is known and every arm can be tried,
UCB(delta) that is told the noise.</p>
<p><strong>Which claims hold.</strong> {_balance(claims)} The verdicts, each with its numbers, come
first; then every experiment of the paper, run again, and what a reader may ask next: how much
depends on the constants of the baselines, and what each part of the method does.</p>
<p class="soft">Seed {about["seed"]}; {_text(versions)}. Same seed, same numbers, on any number of
workers. The data of every picture are in <code>data/</code> beside this page.</p>
<nav><a href="#verdicts">Verdicts</a> <a href="#theory">Theory</a> {links}
<a href="#configuration">Configuration</a></nav>
</header>
<main>
<h2 id="verdicts">What agrees with the paper, and what does not</h2>
<p>Statements of the paper, and what a reader may take from its figures and bounds. Each verdict
follows from the numbers beside it, which this run has computed.</p>
{_verdicts(claims)}
<h2 id="theory">Theory beside measurement</h2>
<p>Constants and bounds of the theorems for K=30, d=17, p=0.6, delta=0.0001, noise 0.1 and,
unless stated otherwise, T=1200.</p>
{_measured(measured)}
{sections}
<h2 id="configuration">Configuration</h2>
<p>Problems, policies with their options, rounds, runs and seeds of every panel.</p>
<details><summary>Show</summary><pre>{_text(_configuration(figures, done))}</pre></details>
</main>
</body>
</html>
"""


def _balance(claims: Sequence[Claim]) -> str:
    agreed, open = (sum(each.verdict == name for each in claims) for name in (AGREES, OPEN))
    return (
        f"{agreed} of the {len(claims)} statements below agree with what was measured or computed "
        "here" + (f", and {open} are open, because the runs were too few." if open else ".")
    )


def _verdicts(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f'<tr><td class="text">{_text(claim.statement)}</td>'
        f'<td class="text"><span class="{claim.verdict}">{claim.verdict}</span></td>'
        f'<td class="text">{_text(claim.evidence)}</td></tr>'
        for claim in claims
    )
    head = '<tr><th>statement</th><th class="text">verdict</th><th class="text">numbers</th></tr>'
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _measured(rows: Sequence[Measured]) -> str:
    body = "".join(
        "<tr>" + "".join(f'<td class="text">{_text(value)}</td>' for value in row) + "</tr>"
        for row in rows
    )
    head = "".join(
        f'<th class="text">{name}</th>' for name in ("quantity", "theory", "measured or used")
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _section(figure: Figure, played: Mapping[str, Any], folder: Path) -> str:
    wide, narrow = (_data(folder / f"{figure.key}{ending}") for ending in (".png", NARROW))
    alt = f"{figure.title}. The numbers are in the table below."
    return f"""
<h2 id="{figure.key}">{_text(figure.title)}</h2>
<p>{_text(figure.caption)} {_runs(played)}</p>
<figure><picture><source media="(max-width: 640px)" srcset="{narrow}">
<img alt="{_text(alt)}" src="{wide}"></picture></figure>
<p class="soft">Mean cumulative regret at the end, and its standard deviation over the runs; the
lowest of a column is bold.</p>
{_table(figure, played)}
"""


def _data(path: Path) -> str:
    """A picture as an address that needs no file."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _runs(played: Mapping[str, Any]) -> str:
    """How many runs are behind a figure."""
    runs = {panel.curves.runs for panel in played.values()}
    few = " Means of so few runs vary a lot from seed to seed." if max(runs) < 20 else ""
    return f"{' or '.join(map(str, sorted(runs)))} runs.{few}"


def _table(figure: Figure, played: Mapping[str, Any]) -> str:
    labels: list[str] = []
    for panel in figure.panels:
        labels += [label for label in panel.policies if label not in labels]
    cells = {
        (row.policy, panel.key): row for panel in figure.panels for row in played[panel.key].summary
    }
    best = {
        panel.key: min(row.mean for row in played[panel.key].summary) for panel in figure.panels
    }
    head = "".join(f"<th>{_text(panel.title)}</th>" for panel in figure.panels)
    body = ""
    for label in labels:
        body += f"<tr><td>{_text(label)}</td>"
        for panel in figure.panels:
            row = cells.get((label, panel.key))
            if row is None:
                body += "<td></td>"
                continue
            style = ' class="best"' if row.mean == best[panel.key] else ""
            body += f"<td{style}>{row.mean:.1f} ± {row.std:.1f}</td>"
        body += "</tr>"
    return f'<div class="scroll"><table><tr><th>policy</th>{head}</tr>{body}</table></div>'


def _configuration(figures: Sequence[Figure], done: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for figure in figures:
        for panel in figure.panels:
            config = dict(done[figure.key][panel.key].config)
            config.pop("versions", None)
            config.pop("seconds", None)
            lines.append(f"{figure.key} / {panel.key}: {json.dumps(config)}")
    return "\n".join(lines)


def _text(value: object) -> str:
    return html.escape(str(value))

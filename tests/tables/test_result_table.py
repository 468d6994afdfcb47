"""Tables of results: rows as dicts or dataclasses, written for people and for other programs."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass

import pytest

from rolf.errors import InvalidArgument
from rolf.tables.result_table import ResultTable, save_result


@dataclass(frozen=True)
class Line:
    policy: str
    value: float
    best: bool = False


LINES = [Line("=ucb", 0.123456, True), Line("lints", 12.0)]


def test_rows_are_kept_and_become_dicts():
    table = ResultTable(LINES)
    assert table[0] is LINES[0]
    assert [row.policy for row in table] == ["=ucb", "lints"]
    assert table.to_dicts()[1] == {"policy": "lints", "value": 12.0, "best": False}
    assert ResultTable(table.to_dicts()).to_dicts() == table.to_dicts()
    assert table.to_pandas()["value"].tolist() == [0.123456, 12.0]


def test_a_table_prints():
    table = ResultTable([*LINES, Line("none", None)], note="a note")
    lines = str(table).splitlines()
    assert lines[0].split() == ["policy", "value", "best"]
    assert lines[1].split() == ["=ucb", "0.1235", "yes"]
    assert lines[-1] == "a note"
    assert "<td" in table._repr_html_()


def test_a_table_without_rows_has_columns():
    table = ResultTable([], columns=["policy", "value"])
    assert str(table) == "policy  value"
    assert list(table.to_pandas().columns) == ["policy", "value"]


def test_no_cell_of_a_file_is_a_formula(tmp_path):
    path = ResultTable(LINES).to_csv(tmp_path / "new" / "table.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["policy"] == "'=ucb"
    assert rows[1] == {"policy": "lints", "value": "12.0", "best": "False"}


class Result:
    def to_dict(self):
        return {"level": 0.95, "rows": self.table().to_dicts()}

    def table(self):
        return ResultTable(LINES)


def test_a_result_is_saved(tmp_path):
    everything = save_result(Result(), tmp_path / "new" / "result.json")
    assert json.loads(everything.read_text()) == Result().to_dict()
    assert save_result(Result(), tmp_path / "result.csv").read_text().startswith("policy,value")
    with pytest.raises(InvalidArgument, match=r"\.json"):
        save_result(Result(), tmp_path / "result.xlsx")

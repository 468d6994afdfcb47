"""Messy tables: an export of 60 products from a German Excel, and other cases."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import rolf
from rolf.arms.reading import read_arms
from rolf.cli import app
from rolf.errors import InvalidArgument, InvalidTable, RolfWarning
from rolf.experiments.database import Database
from rolf.tables.recipe import Recipe
from rolf.testing.experiments import roster_of

HEADER = "Produkt;EAN;Marke;Preis;Rabatt;Einführung;Farbe;Gewicht;Lager;"


def product(i):
    """A row of the export. Seven brands have four products, one has two, and 30 have one."""
    brand = f"Marke {i % 7}" if i < 28 else "Duo" if i < 30 else f"Atelier {i}"
    price = {4: "", 17: "k.A.", 40: ""}.get(i, f"1.{200 + i},50 €" if i % 10 == 9 else f"{i},99 €")
    return [
        f"Hemd, Größe {i}" if i % 6 == 0 else f"Hose {i}",
        f"{4006381330000 + i}",
        brand,
        price,
        f"{i % 50}%" if i % 2 else f"{i % 50},5 %",
        f"{1 + i % 28:02}.0{1 + i % 9}.2024",
        ["rot", "grün", "weiß"][i % 3] if i not in (8, 21) else "",
        f"{i % 5},{i % 10}",
        "WAHR" if i % 4 else "FALSCH",
        "",
    ]


def export(rows, header=HEADER):
    lines = [header, *(";".join(row) for row in rows), ";" * 9]  # Excel likes an empty last row
    return "\r\n".join(lines).encode("cp1252") + b"\r\n"


@pytest.fixture
def products(tmp_path):
    path = tmp_path / "produkte.csv"
    path.write_bytes(export([product(i) for i in range(60)]))
    return path


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/x.db"


def invoke(*words, ok=True):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})
    assert (done.exit_code == 0) == ok, done.output
    return done


def arm_of(url, arm, name="x"):
    arms = json.loads(invoke("arms", url, name, "--json").stdout)
    return next(each["features"] for each in arms if each["arm"] == arm)


def table_of(folder, text, name="arms.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def quietly(source, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)
        return read_arms(source, **options)


# --- the export of an analyst --------------------------------------------------------------------

NOTES = [
    "not UTF-8; read as Windows-1252",
    "EAN: left out: different for every arm, like an id",
    "Marke: 38 categories for 60 arms; the 30 of a single arm are grouped as other",
    "Preis: 3 of 60 cells are empty, in rows 6, 19, 42; read as 33.99 €, the median, and marked by "
    "the column Preis=missing",
    "Farbe: 2 of 60 cells are empty, in rows 10, 23; read as a category, missing",
]


def test_the_export_becomes_an_experiment(products, url):
    done = invoke("new", url, "x", "--features", products, "--policy", "ucb")
    assert done.stderr.splitlines() == [f"note: {products}: {note}" for note in NOTES]
    assert "60 arms" in done.stdout
    assert "arms named by Produkt" in done.stdout
    assert "Einführung: dates, as days since 2024-01-01" in done.stdout
    assert "Rabatt: percentages, 45% is 0.45" in done.stdout
    shirt = arm_of(url, "Hemd, Größe 48")  # introduced on 21.04.2024, 48,5 % off
    assert {name: value for name, value in shirt.items() if value} == {
        "Marke=other": 1,
        "Preis": 48.99,
        "Rabatt": 0.485,
        "Einführung": 111,
        "Farbe=rot": 1,
        "Gewicht": 3.8,
    }
    trousers = arm_of(url, "Hose 19")  # 1.219,50 €
    assert (trousers["Preis"], trousers["Lager"], trousers["Marke=Marke 5"]) == (1219.5, 1, 1)
    gap = arm_of(url, "Hose 17")
    assert (gap["Preis"], gap["Preis=missing"]) == (33.99, 1)


def test_what_was_done_is_shown(products, url):
    invoke("new", url, "x", "--features", products, "--policy", "ucb")
    lines = invoke("arms", url, "x").stdout.splitlines()
    described = lines[lines.index(next(line for line in lines if line.startswith("column"))) :]
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in described}
    assert shown["EAN"] == "left out: different for every arm, like an id"
    words = "numbers in € with a decimal comma; 3 missing, read as 33.99 € and marked by"
    assert shown["Preis"] == f"{words} Preis=missing"
    assert shown["Einführung"] == "dates, as days since 2024-01-01"
    assert shown["Marke"].startswith("text, 9 categories: Duo, Marke 0, Marke 1,")
    assert json.loads(invoke("arms", url, "x", "--columns", "--json").stdout).keys() == {
        *HEADER.split(";")[:-1]
    }


def test_later_arms_are_read_in_the_same_way(products, url, tmp_path):
    """New brands, a missing price, a day before the first one, other columns, another order."""
    invoke("new", url, "x", "--features", products, "--policy", "ucb")
    more = table_of(
        tmp_path,
        "Farbe;Produkt;Marke;Preis;Rabatt;Einführung;Gewicht;Lager\n"
        "rosa;Rock, kurz;Neu;;10%;31.12.2023;1;WAHR\n"
        ";Rock;Atelier 30;1.500 €;0;01.01.2025;1,5;FALSCH\n",
    )
    done = invoke("arms", url, "x", "--add", more)
    assert done.stdout == 'added: "Rock, kurz", Rock\n'
    assert done.stderr.splitlines() == [
        f"note: {more}: Marke: 'Neu' in row 2 (arm Rock, kurz) is new here; read as other",
        f"note: {more}: Preis: 1 of 2 cells is empty, in row 2 (arm Rock, kurz); read as 33.99 €, "
        "the median when the experiment began, and marked by the column Preis=missing",
        f"note: {more}: Farbe: 'rosa' in row 2 (arm Rock, kurz) is new here; read like missing, "
        "which has no column of its own",
    ]
    short, plain = arm_of(url, "Rock, kurz"), arm_of(url, "Rock")
    assert {name: value for name, value in short.items() if value} == {
        "Marke=other": 1,
        "Preis": 33.99,
        "Preis=missing": 1,
        "Rabatt": 0.1,
        "Einführung": -1,
        "Gewicht": 1,
        "Lager": 1,
    }
    assert (plain["Preis"], plain["Marke=other"], plain["Einführung"]) == (1500, 1, 366)
    with rolf.open_experiment(url, "x") as experiment:
        frame = pandas.DataFrame(
            {"Marke": ["Marke 3"], "Preis": [np.nan], "Rabatt": [0.25], "Farbe": ["rot"]}
            | {"Einführung": [pandas.Timestamp(2024, 1, 3, 12)], "Gewicht": [1], "Lager": [True]},
            index=["Rock"],
        )
        with pytest.warns(RolfWarning, match="Preis: 1 of 1 cells is empty"):
            experiment.update_features(frame)
    corrected = arm_of(url, "Rock")
    assert (corrected["Preis"], corrected["Preis=missing"]) == (33.99, 1)
    assert (corrected["Rabatt"], corrected["Einführung"], corrected["Lager"]) == (0.25, 2.5, 1)


def test_the_recipe_outlives_snapshots_and_backups(products, url, tmp_path):
    with pytest.warns(RolfWarning) as caught:
        experiment = rolf.open_experiment(url, "x", features=products, policy="ucb")
    assert [str(each.message) for each in caught] == [f"{products}: {note}" for note in NOTES]
    experiment.tell(experiment.ask(), 1.0)
    experiment.snapshot()
    experiment.backup(tmp_path / "copy.db")
    recipe = roster_of(experiment).arms.recipe
    experiment.close()
    copies = [
        rolf.open_experiment(url, "x", features=products),  # without the warnings
        rolf.open_experiment(f"sqlite:///{tmp_path}/copy.db", "x"),
    ]
    row = product(59)
    rows = export([["Rock", *row[1:3], "", *row[4:]]]).decode("cp1252")
    more = table_of(tmp_path, rows, "more.csv")
    for copy in copies:
        assert roster_of(copy).arms.recipe == recipe
        with pytest.warns(RolfWarning, match=r"Preis: 1 of 1 cells is empty, in row 2"):
            assert copy.add_arms(more) == ["Rock"]
        assert (
            roster_of(copy).arms.features[-1, roster_of(copy).arms.columns.index("Preis")] == 33.99
        )
        copy.close()


def test_missing_cells_can_be_refused(products, url):
    done = invoke("new", url, "x", "--features", products, "--missing", "error", ok=False)
    assert str(done.exception).splitlines() == [
        f"{products}: 2 problems",
        "  Preis: nothing in rows 6, 42, 'k.A.' in row 19; wanted a number with a decimal comma in "
        "€ in every row",
        "  Farbe: nothing in rows 10, 23; wanted a category in every row",
    ]
    assert Database(url).names() == []
    with pytest.raises(InvalidTable):
        rolf.open_experiment(url, "x", features=products, missing="error")
    with pytest.raises(InvalidArgument, match="missing: got 'no'"):
        rolf.open_experiment(url, "x", features=products, missing="no")


def test_an_experiment_that_refused_missing_cells_goes_on_to_refuse_them(url, tmp_path):
    full = "arm,u,kind\na,1,x\nb,2,y\nc,3,x\n"
    experiment = rolf.open_experiment(
        url, "x", features=table_of(tmp_path, full), policy="ucb", missing="error"
    )
    with experiment, pytest.raises(InvalidTable, match=r"u: nothing in row 2(.|\n)*kind: nothing"):
        experiment.add_arms(table_of(tmp_path, "arm,u,kind\nd,,\n"))


def test_all_problems_are_named_at_once(url, tmp_path):
    """By the rows that a spreadsheet shows: empty ones count, and so do cells of several lines."""
    lines = [
        "name;price;born;share",
        "a;1,5;01.02.2024;10%",
        ";2,5;02.02.2024;20%",
        ";;;",
        '"b\nc";dear;03.02.2024;30%',
        "d;3,5;31.02.2024;40",
        "a;4,5;04.02.2024;50%;!",
        "e;5.5;05.02.2024;60%",
        *(f"f{i};1,5;06.02.2024;70%" for i in range(8)),
    ]
    path = table_of(tmp_path, "\n".join(lines))
    done = invoke("new", url, "x", "--features", path, ok=False)
    assert str(done.exception).splitlines() == [
        f"{path}: 6 problems",
        "  name: nothing in row 3; wanted a name",
        "  name: a twice, in rows 2, 7; wanted each arm once",
        "  row 7: 5 cells; wanted 4, as in the header; a cell that holds the separator needs "
        "quotes",
        "  price: 'dear' in row 5, '5.5' in row 8; wanted a number with a decimal comma in every "
        "row",
        "  born: '31.02.2024' in row 6; wanted a date in every row",
        "  share: '40' in row 6; wanted a number with % in every row",
    ]
    assert [each.argument for each in done.exception.problems][3] == f"{path}: price"
    again = pickle.loads(pickle.dumps(done.exception))
    assert (str(again), len(again.problems)) == (str(done.exception), 6)


# --- names with commas ---------------------------------------------------------------------------


def test_names_with_commas(products, url, tmp_path):
    invoke("new", url, "x", "--features", products, "--policy", "beta-ts", "--seed", 1)
    both, ids = {"Hemd, Größe 6", "Hose 7"}, []
    for words in (
        ["--available", '"Hemd, Größe 6",Hose 7'],
        ["--available", 'Hose 7, "Hemd, Größe 6"'],
        ["--available", "Hemd, Größe 6", "--available", "Hose 7"],
    ):
        asked = json.loads(invoke("ask", url, "x", "-n", 20, *words, "--json").stdout)
        assert {each["arm"] for each in asked} == both
        ids += [each["id"] for each in asked]
    done = invoke(
        "arms", url, "x", "--retire", "Hemd, Größe 0", "--retire", '"Hemd, Größe 6",Hose 7'
    )
    assert done.stdout == 'retired: "Hemd, Größe 0", "Hemd, Größe 6", Hose 7\n'
    with rolf.open_experiment(url, "x") as experiment:
        assert roster_of(experiment).active.count(False) == 3
        experiment.tell_many(dict.fromkeys(ids, 1.0))
    failed = invoke("ask", url, "x", "--available", "Hemd, Größe 1", ok=False)
    assert str(failed.exception).startswith("--available: got 'Hemd'")
    for ending in ("csv", "parquet"):
        log = tmp_path / f"log.{ending}"
        invoke("export", url, "x", log)
        assert set(read_log_arms(log)) == both
        words = ("--features", products, "--policy", "beta-ts", "--json")
        assert json.loads(invoke("import", url, ending, log, *words).stdout)["learned"] == 60


def read_log_arms(path):
    frame = pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
    return frame["arm"]


# --- what is kept --------------------------------------------------------------------------------


def test_a_recipe_comes_back_from_json(products):
    recipe = quietly(products).recipe
    assert {each.kind for each in recipe.columns} == {
        "number",
        "date",
        "flag",
        "category",
        "left out",
    }
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("columns"),
        lambda data: data.update(key=3),
        lambda data: data["columns"].append("u"),
        lambda data: data["columns"][0].update(kind="code"),
        lambda data: data["columns"][0].update(fill=float("nan")),
        lambda data: data["columns"][0].update(mark="'"),
        lambda data: data["columns"][0].update(name=None),
        lambda data: data["columns"][0].update(missing=-1),
        lambda data: data["columns"][1].update(origin="never"),
        lambda data: data["columns"][1].update(order="ymd"),
        lambda data: data["columns"][2].update(categories=[1]),
        lambda data: data["columns"][2].update(refuse="no"),
    ],
)
def test_a_damaged_recipe_is_refused(tmp_path, damage):
    path = table_of(tmp_path, "arm,u,day,kind\na,1,2024-01-01,x\nb,2,2024-01-02,y\n")
    data = json.loads(json.dumps(read_arms(path).recipe.to_dict()))
    damage(data)
    with pytest.raises(InvalidArgument, match=r"^log: recipe"):
        Recipe.from_dict(data, "log: recipe")

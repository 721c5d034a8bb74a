"""What people hold comes in: graphs, tables, rows and loaders of other libraries."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from fcfg.causal.graph import CausalGraph
from fcfg.datasets.rows import read_rows
from refusal import refused
from tiny import SIZE, SPACE, tiny_pipeline

EDGES = [("age", "hair"), ("sex", "hair")]
GRAPH = CausalGraph({"age": [], "hair": ["age", "sex"], "sex": []})
COLUMNS: dict[str, list[Any]] = {"smiling": [0, 1], "age": [40.0, 70.5], "hair": ["dark", "red"]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


class Holder:
    """As models of dowhy hold their graph."""

    def __init__(self, graph: object) -> None:
        self._graph = graph


def test_a_graph_comes_from_networkx_and_from_what_holds_one() -> None:
    graph = nx.DiGraph(EDGES)
    for given in (graph, Holder(graph), Holder(Holder(graph))):
        assert CausalGraph(given) == GRAPH
    graph.add_node("U", observed="no")
    refused("causal graph", "observed nodes", "'U'").by(CausalGraph, graph)
    refused("causal graph", "lists by node").by(CausalGraph, nx.Graph(EDGES))


@pytest.mark.filterwarnings("ignore")
def test_a_graph_comes_from_pgmpy_and_dowhy() -> None:
    base = pytest.importorskip("pgmpy.base", reason="pgmpy is not installed")
    assert CausalGraph(base.DAG(EDGES)) == GRAPH
    gcm = pytest.importorskip("dowhy.gcm", reason="dowhy is not installed")
    assert CausalGraph(gcm.StructuralCausalModel(nx.DiGraph(EDGES))) == GRAPH


TABLES = {
    "pandas": "DataFrame",
    "polars": "DataFrame",
    "pyarrow": "table",
    "datasets": "Dataset.from_dict",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", TABLES)
def test_a_table_comes_from_every_library_of_tables(library: str) -> None:
    there = pytest.importorskip(library, reason=f"{library} is not installed")
    parsed = SPACE.parse(attrgetter(TABLES[library])(there)(COLUMNS | {"more": [1, 2]}))
    expected = SPACE.parse(COLUMNS)
    assert all(np.array_equal(parsed[name], expected[name]) for name in SPACE.names)


class LazyColumn:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_pylist(self) -> list[Any]:
        return self.values


class Lazy:
    """A table as those of Arrow are: names beside columns, which make lists of themselves."""

    column_names: ClassVar = list(COLUMNS)

    def __getitem__(self, name: str) -> LazyColumn:
        return LazyColumn(COLUMNS[name])


class Plain:
    """A frame as that of pandas is."""

    columns: ClassVar = list(COLUMNS)

    def __getitem__(self, name: str) -> Any:
        column = COLUMNS[name]
        return tuple(column) if name == "hair" else np.array(column)


def test_columns_may_be_lists_arrays_or_make_lists_of_themselves() -> None:
    expected = SPACE.parse(COLUMNS)
    for table in (Lazy(), Plain()):
        assert SPACE.parse(table)["hair"].tolist() == expected["hair"].tolist()
        assert np.array_equal(SPACE.parse(table)["age"], expected["age"])


class Faces(Dataset[Any]):
    """A dataset that does not end with an IndexError, as many."""

    def __init__(self, form: str) -> None:
        self.form = form

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> Any:
        picture, row = torch.full((3, SIZE, SIZE), number / 2), ROWS[number % 2]
        if self.form == "mapping":
            return {"image": picture, **row}
        if self.form == "pair":
            return picture, row
        return picture, torch.tensor([row["smiling"], row["age"]])


@pytest.mark.parametrize("form", ["mapping", "pair", "values"])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_rows_come_from_datasets_and_loaders(form: str, batch: int) -> None:
    names = ["smiling", "age"] if form == "values" else list(COLUMNS)
    rows: Any = Faces(form) if batch == 0 else DataLoader(Faces(form), batch_size=batch)
    images, table = read_rows(rows, names)
    assert torch.equal(images, torch.stack([torch.full((3, SIZE, SIZE), n / 2) for n in (0, 1)]))
    assert table == {name: COLUMNS[name] for name in names}
    few, table = read_rows(rows, names, most=1)
    assert len(few) == len(table["age"]) == 1


def test_rows_go_into_a_model_or_are_refused_by_number() -> None:
    pictures = [Image.new("RGB", (SIZE, SIZE), colour) for colour in ("red", "blue")]
    rows = [{"photo": picture, **row} for picture, row in zip(pictures, ROWS, strict=True)]
    images, table = read_rows(iter(rows), SPACE.names, image="photo")
    answer = tiny_pipeline().counterfactual(images, table, {"smiling": "flip"}, sampling=2)
    assert answer.images.shape == (2, 3, SIZE, SIZE)
    assert table == COLUMNS
    picture = torch.zeros(3, SIZE, SIZE)
    with refused("rows, row 1", "'image'", "'age'"):
        read_rows([(picture, ROWS[0]), (picture, {"smiling": 1})], ["smiling", "age"])
    refused("rows, row 0", "'image'").by(read_rows, [ROWS[0]], ["age"])
    refused("rows, row 0", "'smiling'").by(read_rows, [(picture, [1, 2, 3])], ["smiling"])
    refused("rows", "a dataset", "int 3").by(read_rows, 3, ["smiling"])

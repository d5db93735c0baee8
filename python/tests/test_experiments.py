"""Experiments: digests and cells of the command line."""

import csv
import io
import json
import pickle

import flashlab
import pytest


@pytest.fixture(scope="module")
def result():
    return flashlab.experiment("usb-sticks").run(seed=1)


def test_the_digest_equals_the_golden_digest(result, golden):
    assert result.digest == golden("usb-sticks")
    assert flashlab.experiment("usb-sticks").run(seed=2).digest != result.digest


def test_the_json_is_that_of_the_command_line(result, cli):
    expected = json.loads(cli("run", "usb-sticks", "--format", "json", "--no-html"))
    # A release build of the program states its commit, which the module does not know.
    expected.pop("commit", None)
    assert json.loads(result.json()) == expected


def test_cells_are_those_of_the_csv(result):
    rows = list(csv.DictReader(io.StringIO(result.csv())))
    assert len(rows) == len(result.cells) > 0
    for row, cell in zip(rows, result.cells):
        assert (row["table"], row["row"], row["column"], row["unit"], row["role"]) == (
            cell.table,
            cell.row,
            cell.column,
            cell.unit,
            cell.role,
        )
        assert sum(cell.mechanisms.values()) == pytest.approx(cell.latency_ns_mean)
        if cell.published is not None:
            assert cell.error_percent == pytest.approx(100 * (cell.simulated - cell.published) / cell.published)
    assert result.missed_bounds == []


def test_cells_can_be_pickled_and_the_error_of_a_result_names_an_alternative(result):
    for cell in result.cells:
        copy = pickle.loads(pickle.dumps(cell))
        for name in ("table", "row", "column", "unit", "simulated", "simulated_sd", "published", "role"):
            assert getattr(copy, name) == getattr(cell, name)
        assert (copy.error_percent, copy.mechanisms) == (cell.error_percent, cell.mechanisms)
        assert (copy.requests, copy.latency_ns_mean) == (cell.requests, cell.latency_ns_mean)
    with pytest.raises(TypeError, match=r"return result.to_dict\(\)"):
        pickle.dumps(result)


def test_an_unknown_experiment_has_the_text_of_the_command_line(cli):
    with pytest.raises(flashlab.Error) as caught:
        flashlab.experiment("hbm")
    assert cli("run", "hbm") == f"flashlab: {caught.value}\n"


def test_names_are_listed():
    assert {"hmb", "sd-cards", "wear"} <= set(flashlab.experiments())
    assert "block-paths" not in flashlab.experiments(), "it measures a machine"
    assert "sd/kingston" in flashlab.devices("sd/*")
    assert set(flashlab.devices("sd/*")) < set(flashlab.devices())
    with pytest.raises(flashlab.Error, match="xd"):
        flashlab.devices("xd/*")


def test_a_library_adds_devices(tmp_path):
    with pytest.raises(flashlab.Error):
        flashlab.Device("sd/kingston", library=tmp_path / "missing")

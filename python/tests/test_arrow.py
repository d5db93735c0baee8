"""Tables through the Arrow PyCapsule interface, as the libraries of requirements.txt read them."""

import flashlab
import pytest


@pytest.fixture(scope="module")
def tables():
    result = flashlab.Device("nvme/p32a80").run(rw="randrw", bs="4k", size="16m", number_ios=500)
    batch = flashlab.Device("nvme/p32a80").submit_many("write", range(0, 1 << 20, 4096), depth=4)
    experiment = flashlab.experiment("usb-sticks").run()
    return {"result": result, "batch": batch, "experiment": experiment}


def check(tables, rows_of):
    """Compare the rows that a library reads with the objects; ``rows_of`` turns a table into dictionaries."""
    result, batch, experiment = tables["result"], tables["batch"], tables["experiment"]
    rows = rows_of(result)
    assert [(row["job"], row["direction"], row["iops"]) for row in rows] == [
        (job.job, job.direction, job.iops) for job in result.jobs
    ]
    for row, job in zip(rows, result.jobs):
        assert row["latency_ns_p99"] == job.latency.percentile(99)
        assert {name: row[f"{name}_ns"] for name in job.mechanisms} == pytest.approx(job.mechanisms)
    rows = rows_of(batch)
    assert [row["latency_ns"] for row in rows] == list(batch.latency_ns)
    assert [row["id"] for row in rows] == list(batch.ids)
    assert {row["status"] for row in rows} == {"ok"}
    rows = rows_of(experiment)
    assert [(row["table"], row["column"], row["simulated"]) for row in rows] == [
        (cell.table, cell.column, cell.simulated) for cell in experiment.cells
    ]
    missing = [row["published"] is None or row["published"] != row["published"] for row in rows]
    assert missing == [cell.published is None for cell in experiment.cells]


def test_pyarrow_reads_the_tables(tables):
    pyarrow = pytest.importorskip("pyarrow")
    check(tables, lambda table: pyarrow.table(table).to_pylist())


def test_polars_reads_the_tables(tables):
    polars = pytest.importorskip("polars")
    check(tables, lambda table: polars.DataFrame(table).to_dicts())


def test_duckdb_reads_the_tables(tables):
    duckdb = pytest.importorskip("duckdb")

    def rows(data):
        found = duckdb.sql("select * from data")
        return [dict(zip(found.columns, row)) for row in found.fetchall()]

    check(tables, rows)


def test_pandas_reads_the_tables(tables):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    if not hasattr(pandas.DataFrame, "from_arrow"):
        pytest.skip(f"pandas {pandas.__version__} has no DataFrame.from_arrow")
    check(tables, lambda table: pandas.DataFrame.from_arrow(table).to_dict("records"))


def test_a_capsule_that_nobody_reads_is_freed(tables):
    for _ in range(100):
        capsule = tables["batch"].__arrow_c_stream__()
        assert "arrow_array_stream" in repr(capsule)


def test_columns_are_not_copied(tables):
    pyarrow = pytest.importorskip("pyarrow")
    batch = tables["batch"]
    first, second = (pyarrow.table(batch)["latency_ns"].chunk(0).buffers()[1].address for _ in range(2))
    assert first == second, "the tables do not use the memory of the result"

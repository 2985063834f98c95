"""The figures of engines' runs: what their tasks say, together and as notes of commits."""

from platform_plugin.engine.figures import EngineRun, note_runs, total_figures
from platform_plugin.lake.values.engine_notes import NOTED

JOB = EngineRun(
    engine="executors",
    relations=("main.a", "main.b"),
    why="local would take 3.0 s",
    rows=600,
    seconds=2.0,
    estimates={"executors": 1.0, "local": 3.0},
    cpu_seconds=3.0,
    jobs=1,
    tasks=6,
    executors={"m/1": 4, "n/2": 2},
    skew=1.5,
    client_bytes=1000,
)
LOCAL = EngineRun(engine="local", relations=("main.c",), why="executors would take 6.1 s", rows=100, seconds=0.5, estimates={"local": 0.1})


def test_totals_are_numbers():
    found = total_figures([JOB, LOCAL])
    assert found == {
        "engine_seconds": 2.5,
        "engine_estimated_seconds": 1.1,
        "rows_by_local": 100,
        "rows_by_executors": 600,
        "rows_by_spark_sql": 0,
        "core_rows_per_second": 200,
        "client_bytes": 1000,
        "executors": 2,
        "tasks_per_executor": 3.0,
        "most_tasks_of_an_executor": 4,
        "skew": 1.5,
    }
    assert all(isinstance(value, int | float) for value in found.values())
    assert "skew" not in total_figures([LOCAL])
    assert total_figures([]) == {}


def test_a_note_names_engine_reason_estimate_and_what_it_took():
    (job, local) = note_runs([JOB, LOCAL])[NOTED]
    assert (job["engine"], job["relations"], job["estimated_seconds"], job["seconds"]) == ("executors", ["main.a", "main.b"], 1.0, 2.0)
    assert (job["why"], job["executors"], job["tasks"]) == (JOB.why, 2, 6)
    assert "skew" not in local
    assert note_runs([]) == {}
    many = EngineRun(engine="local", relations=tuple(f"main.v{number}" for number in range(1000)), why="")
    (noted,) = note_runs([many])[NOTED]
    assert (len(noted["relations"]), noted["count"]) == (100, 1000)

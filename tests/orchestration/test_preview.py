import warnings
from pathlib import Path

import dagster as dg

from platform_plugin.orchestration.preview import as_virtual, every_asset, quieten_copies, source_link


def test_a_virtual_asset_is_made_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = as_virtual(dg.AssetSpec("v", deps=["t"], kinds={"view"}, metadata={"a": 1}))
    assert spec.is_virtual
    assert (spec.key, spec.kinds, spec.metadata["a"]) == (dg.AssetKey("v"), {"view"}, 1)


def test_a_link_to_a_file_is_made_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        link = source_link(Path("/srv/models/users.sql"))
    (file,) = link.code_references
    assert (file.file_path, file.label) == ("/srv/models/users.sql", "users.sql")


def test_every_asset_is_chosen_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = every_asset()
    external, own = dg.AssetSpec("external"), dg.asset(name="own")(lambda: None)
    graph = dg.Definitions(assets=[external, own]).resolve_asset_graph()
    assert {key.to_user_string() for key in chosen.resolve(graph)} == {"external", "own"}


def test_dagsters_copies_of_our_sensors_are_silent():
    def look():
        pass

    def warned(sensor):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            copy = sensor.with_updated_jobs([job]).with_attributes(metadata={"a": "b"})
        assert (copy.name, copy.job_name) == ("look", "work")
        return [str(each.message) for each in caught if each.category is dg.BetaWarning]

    job = dg.GraphDefinition("work").to_job()
    assert warned(quieten_copies(dg.sensor(job=job)(look))) == []
    assert any("SensorDefinition" in said for said in warned(dg.sensor(job=job)(look))), "Dagster has mended it: the class can go"

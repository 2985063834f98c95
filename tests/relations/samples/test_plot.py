"""Pictures of samples: what is drawn is what was counted."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from platform_plugin.cli import main
from platform_plugin.errors import InvalidValue
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.histogram import read_histograms
from tests.relations.samples.streams import COLUMNS, append

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute(f"CREATE TABLE users ({COLUMNS})")
        append(made, "users", 0, 1000, files=2)
        made.execute("CREATE SAMPLE s ON users SIZE 300 WITH (seed = 1)")
        yield made


def test_shares_of_sample_and_population(platform):
    title, found = read_histograms(platform.work, "s")
    assert title == "main.s: 300 rows for 1000"
    assert [one.column for one in found] == ["id", "score"]
    for one in found:
        assert one.population is not None
        assert abs(one.population.sum() - 1) < 1e-9
        assert np.abs(one.versions[0][1] - one.population).max() < 0.05
        assert one.drift == 0


def test_drift_between_versions(platform):
    before = platform.lake.snapshot().id
    append(platform, "users", 5000, 8000)
    _, found = read_histograms(platform.work, "s", [before])
    first = found[0]
    assert first.drift > 0.5
    drawn = ET.fromstring(platform.plot("s", versions=[before]).decode())
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert f"drift {first.drift:.3f}" in texts
    assert len(list(drawn.iter(f"{SVG}polyline"))) == 4  # population and older version of two columns
    bars = [float(tall) for path in drawn.iter(f"{SVG}path") for tall in re.findall(r"v-([\d.]+)", path.get("d"))]
    assert len(bars) == sum(int((one.versions[0][1] > 0).sum()) for one in found)
    assert 20 < max(bars) <= 150.05


def test_names_are_text_and_nothing_else(platform):
    platform.execute("CREATE TABLE odd (`a<b&c` INT)")
    platform.execute("INSERT INTO odd VALUES (1)")
    platform.execute("CREATE SAMPLE o ON odd SIZE 3")
    assert "a<b&c" in [text.text for text in ET.fromstring(platform.plot("o").decode()).iter(f"{SVG}text")]
    platform.execute("CREATE TABLE words (word STRING)")
    platform.execute("CREATE SAMPLE w ON words SIZE 3")
    assert b"no numeric column" in platform.plot("w")
    with pytest.raises(InvalidValue, match="is not a sample"):
        platform.plot("users")


def test_the_command(platform, tmp_path, capsys):
    out = tmp_path / "picture.svg"
    assert main(["plot", "s", "--url", str(tmp_path / "lake"), "-o", str(out)]) == 0
    assert out.read_bytes() == platform.plot("s")
    assert str(out) in capsys.readouterr().out
    assert main(["plot", "users", "--url", str(tmp_path / "lake")]) == 1


def test_bars_of_a_weighted_sample_stand_for_all_rows(platform):
    platform.execute("CREATE SAMPLE w ON users SIZE 300 WEIGHTED BY (id) WITH (seed = 1)")
    title, found = read_histograms(platform.work, "w")
    assert title == "main.w: 300 rows for 999, weighted"
    assert [one.column for one in found] == ["id", "score"]
    drawn = platform.sample("w").arrow().column("id").to_numpy()
    assert (drawn >= 500).mean() > 0.65, "large ids are drawn more often"
    shares = found[0].versions[0][1]
    assert abs(shares[12:].sum() - 0.5) < 0.1
    assert np.abs(shares - found[0].population).max() < 0.05
    assert ET.fromstring(platform.plot("w").decode()) is not None


def test_a_merged_sample_is_drawn_like_others(platform):
    platform.execute(f"CREATE TABLE more ({COLUMNS})")
    append(platform, "more", 1000, 1100)
    platform.execute("CREATE SAMPLE m ON more SIZE 300")
    platform.execute("CREATE SAMPLE both ON SAMPLES (s, m) SIZE 300")
    title, found = read_histograms(platform.work, "both")
    assert title == "main.both: 300 rows for 1100"
    assert [one.population for one in found] == [None, None]


def test_numbers_beyond_those_of_doubles(platform):
    platform.execute("CREATE TABLE large (n BIGINT)")
    platform.execute(f"INSERT INTO large VALUES ({(1 << 62) + 1}), (NULL), (3)")
    platform.execute("CREATE SAMPLE l ON large SIZE 3")
    ((histogram,),) = read_histograms(platform.work, "l")[1:]
    assert histogram.versions[0][1].tolist() == histogram.population.tolist() == [0.5, *([0.0] * 22), 0.5]


def test_the_command_draws_svg_and_nothing_else(platform, tmp_path, capsys):
    assert main(["plot", "s", "--url", str(tmp_path / "lake"), "-o", str(tmp_path / "picture.png")]) == 1
    assert "a picture is SVG" in (said := capsys.readouterr().err)
    assert "picture.svg" in said
    assert not (tmp_path / "picture.png").exists()

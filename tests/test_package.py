"""The wheel: nothing but the package in it, and it works where the checkout is not."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

import platform_plugin

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel as the build backend makes it, without an index."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_typed_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"platform_plugin", f"platform_plugin-{platform_plugin.__version__}.dist-info"}
    assert "platform_plugin/py.typed" in names
    assert f"platform_plugin-{platform_plugin.__version__}.dist-info/licenses/LICENSE" in names
    tracked = {str(path.relative_to(ROOT)) for path in (ROOT / "platform_plugin").rglob("*.py")}
    assert tracked == {name for name in names if name.endswith(".py")}


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(wheel, tmp_path):
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "--quiet", str(wheel)],
        check=True,
        timeout=120,
    )
    # The dependencies are this environment's own; the project is not, since the link to the checkout is not followed from a path.
    (site,) = place.glob("lib/python3*/site-packages")
    dependencies = sysconfig.get_paths()["purelib"]
    (site / "dependencies.pth").write_text(f"import sys; sys.path.append({dependencies!r})\n")
    code = (
        "import importlib, pathlib, pkgutil\n"
        "import platform_plugin\n"
        "print(pathlib.Path(platform_plugin.__file__).parent)\n"
        "print(platform_plugin.__version__, platform_plugin.PlatformError.__name__)\n"
        "for module in pkgutil.walk_packages(platform_plugin.__path__, 'platform_plugin.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
    )
    answer = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [str(site / "platform_plugin"), f"{platform_plugin.__version__} PlatformError"]


@pytest.mark.parametrize("entry", list(distribution("platform-plugin").entry_points), ids=lambda entry: f"{entry.group}:{entry.name}")
def test_every_entry_point_leads_somewhere(entry):
    if find_spec(entry.module) is None:
        pytest.skip(f"{entry.module} comes with a later issue")
    assert entry.load() is not None

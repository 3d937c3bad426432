"""Landscapes from files, and errors that name the layer and the cell."""

from __future__ import annotations

import importlib.util
import zipfile

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.files import read_landscape, write_npz
from briskrl.envs.wildfire.synthetic import Terrain, synthetic

FUEL = np.array([[102, 122, 98], [145, 165, 183]])


@pytest.fixture
def landscape():
    return synthetic(3, 9, 12, terrain=Terrain(n_settlements=1, n_lines=1))


def write_grid(path, grid, **header):
    lines = {
        "ncols": grid.shape[1],
        "nrows": grid.shape[0],
        "xllcorner": 0,
        "yllcorner": 0,
        "cellsize": 30,
        "NODATA_value": -9999,
    } | header
    text = "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)
    rows = "\n".join(" ".join(str(cell) for cell in row) for row in grid)
    path.write_text(text + rows + "\n", "ascii")


def test_a_written_landscape_reads_back_the_same(tmp_path, landscape):
    write_npz(tmp_path / "land.npz", landscape)
    again = read_landscape(tmp_path / "land.npz")
    for name in ("fuel", "elevation", "slope", "aspect", "value", "ignition_weight", "protected"):
        np.testing.assert_array_equal(getattr(again, name), getattr(landscape, name))
    assert again.cell_m == landscape.cell_m
    assert again.prevailing_deg == landscape.prevailing_deg


def test_an_environment_plays_a_file(tmp_path, landscape):
    write_npz(tmp_path / "land.npz", landscape)
    settings = {"landscape": str(tmp_path / "land.npz"), "n_weather": 2, "n_fires": 4}
    env = WildfireVecEnv(2, obs_fires=4, **settings)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 15, 9, 12)
    assert env.pool.budget == round(0.05 * 108)
    np.testing.assert_array_equal(env.pool.members[0].scene.landscape.fuel, landscape.fuel)


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "land.npz"
    found = []
    for fuel in (102, 145):
        np.savez(path, fuel=np.full((5, 5), fuel))
        env = WildfireVecEnv(1, landscape=str(path), n_weather=1, n_fires=1, obs_fires=1)
        found.append(int(env.pool.members[0].scene.landscape.fuel[0, 0]))
    assert found == [102, 145]


def test_ascii_grids_beside_the_fuel_belong_to_it(tmp_path):
    write_grid(tmp_path / "fuel.asc", FUEL)
    write_grid(tmp_path / "elevation.asc", np.array([[500.5, 510, 520], [505, 515, 525]]))
    write_grid(tmp_path / "value.asc", np.array([[1, 2, 3], [4, 5, 6]]))
    for path in (tmp_path / "fuel.asc", tmp_path):
        found = read_landscape(path)
        np.testing.assert_array_equal(found.fuel, FUEL)
        assert found.cell_m == 30
        assert found.elevation[0, 0] == 500.5
        assert found.slope.any()
        # Water has no value, even if the file gives it one.
        np.testing.assert_array_equal(found.value, [[1, 2, 0], [4, 5, 6]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nrows": 3}, "has 2 rows, its header says 3"),
        ({"ncols": 4}, "row 0 of the layer 'fuel' has 3 columns, the header says 4"),
        ({"cellsize": None}, "needs cellsize"),
        ({"cellsize": -5}, "needs cellsize above 0"),
        ({"ncols": "many"}, "ncols must be a number, not 'many'"),
        ({"NODATA_value": 145}, "'fuel' has no data at row 1, column 0"),
    ],
)
def test_broken_headers_are_refused(tmp_path, change, message):
    write_grid(tmp_path / "fuel.asc", FUEL, **change)
    with pytest.raises(ConfigError, match=message):
        read_landscape(tmp_path / "fuel.asc")


def test_broken_grids_are_refused(tmp_path):
    path = tmp_path / "fuel.asc"
    write_grid(path, np.array([["102", "tree"], ["102", "102"]]))
    with pytest.raises(ConfigError, match="'fuel' has 'tree' at row 0, column 1"):
        read_landscape(path)
    write_grid(path, np.array([[102, 102], [102, 7000]]))
    with pytest.raises(ConfigError, match="'fuel' has 7000 at row 1, column 1"):
        read_landscape(path)
    write_grid(path, FUEL)
    write_grid(tmp_path / "slope.asc", np.zeros((2, 2)))
    with pytest.raises(ConfigError, match=r"'slope' has the shape \(2, 2\), but 'fuel'"):
        read_landscape(path)
    write_grid(tmp_path / "slope.asc", np.zeros((2, 3)), cellsize=10)
    with pytest.raises(ConfigError, match="cells of the layer 'slope' are 10 wide"):
        read_landscape(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_landscape(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"elevation": np.zeros((3, 3))}, "'fuel' is missing; the file holds elevation"),
        ({"fuel": FUEL, "elevaton": FUEL}, "unknown layer 'elevaton'. Did you mean 'elevation'"),
        ({"fuel": FUEL, "cell_m": np.array([1, 2])}, "'cell_m' must be one number"),
        ({"fuel": FUEL, "cell_m": np.array(np.nan)}, "'cell_m' must be one number"),
        ({"fuel": FUEL, "value": np.array([["a"] * 3] * 2)}, "'value' holds <U1, not numbers"),
        ({"fuel": FUEL[0]}, r"not \(3,\)"),
    ],
)
def test_broken_archives_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "land.npz", **arrays)
    with pytest.raises(ConfigError, match=message):
        read_landscape(tmp_path / "land.npz")


def test_archives_cannot_run_code(tmp_path):
    np.savez(tmp_path / "land.npz", fuel=np.array([[{"a": 1}]], dtype=object))
    with pytest.raises(ConfigError, match=r"not an \.npz file of plain arrays"):
        read_landscape(tmp_path / "land.npz")


def test_members_of_an_archive_that_are_no_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "land.npz", fuel=FUEL)
    with zipfile.ZipFile(tmp_path / "land.npz", "a") as archive:
        archive.writestr("cell_m", b"thirty")
    with pytest.raises(ConfigError, match="'cell_m' must be one number"):
        read_landscape(tmp_path / "land.npz")


@pytest.mark.parametrize("size", ["inf", "1e300", "0.5", "4000000000"])
def test_impossible_sizes_of_a_grid_are_refused(tmp_path, size):
    path = tmp_path / "fuel.asc"
    write_grid(path, FUEL)
    lines = path.read_text().splitlines()
    changed = [f"ncols {size}" if line.lower().startswith("ncols") else line for line in lines]
    path.write_text("\n".join(changed) + "\n")
    with pytest.raises(ConfigError, match=r"fuel\.asc"):
        read_landscape(path)


def test_missing_and_unknown_files_are_refused(tmp_path):
    (tmp_path / "noise.npz").write_bytes(b"noise")
    (tmp_path / "land.png").write_bytes(b"")
    for name, message in (
        ("none.npz", "no such file"),
        ("noise.npz", "not an .npz file"),
        ("land.png", "are read from"),
        ("", "neither fuel.asc nor fuel.tif"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_landscape(tmp_path / name)


@pytest.mark.skipif(importlib.util.find_spec("rasterio") is not None, reason="rasterio is there")
def test_geotiff_without_its_reader_says_what_to_install(tmp_path):
    (tmp_path / "fuel.tif").write_bytes(b"II*\0")
    with pytest.raises(ConfigError, match=r'pip install "briskrl\[geo\]"'):
        read_landscape(tmp_path / "fuel.tif")


def write_tiff(path, layers, *, names=None, nodata=None):
    rasterio = pytest.importorskip("rasterio")
    first = layers[0]
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=first.shape[0],
        width=first.shape[1],
        count=len(layers),
        dtype="float32",
        nodata=nodata,
        transform=rasterio.transform.from_origin(0, 0, 25, 25),
    ) as file:
        for band, layer in enumerate(layers, start=1):
            file.write(layer.astype(np.float32), band)
            if names is not None:
                file.set_band_description(band, names[band - 1])


def test_geotiff_bands_are_named_layers(tmp_path):
    elevation = np.arange(6.0).reshape(2, 3)
    write_tiff(tmp_path / "land.tif", [FUEL, elevation], names=["fuel", "elevation"])
    found = read_landscape(tmp_path / "land.tif")
    np.testing.assert_array_equal(found.fuel, FUEL)
    np.testing.assert_array_equal(found.elevation, elevation)
    assert found.cell_m == 25


def test_geotiff_files_beside_the_fuel_belong_to_it(tmp_path):
    write_tiff(tmp_path / "fuel.tif", [FUEL])
    write_tiff(tmp_path / "value.tif", [np.full((2, 3), 4.0)])
    found = read_landscape(tmp_path)
    assert found.value.max() == 4


def test_broken_geotiffs_are_refused(tmp_path):
    write_tiff(tmp_path / "land.tif", [FUEL, FUEL], names=["fuel", "hight"])
    with pytest.raises(ConfigError, match="band 2 is an unknown layer 'hight'"):
        read_landscape(tmp_path / "land.tif")
    write_tiff(tmp_path / "gap.tif", [FUEL], nodata=165)
    with pytest.raises(ConfigError, match="'fuel' has no data at row 1, column 1"):
        read_landscape(tmp_path / "gap.tif")
    (tmp_path / "noise.tif").write_bytes(b"noise")
    with pytest.raises(ConfigError, match="not a readable GeoTIFF"):
        read_landscape(tmp_path / "noise.tif")

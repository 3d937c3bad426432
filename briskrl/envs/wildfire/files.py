"""Landscapes from files: .npz with named arrays, ESRI ASCII grids, GeoTIFF.

A grid format holds one layer per file: the file asked for is the fuel, and files beside it that are
named after other layers (elevation.asc, value.asc, ...) belong to it. A GeoTIFF may instead hold
several bands, described by the names of layers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError, nearest
from briskrl.envs.wildfire.landscape import LAYERS, Landscape, cell_name, landscape_of

Layer = NDArray[Any]
LONGEST_SIDE = 10**9
"""Cells along a side of a grid; a header may hold any number."""
CELL_M = 30.0
"""Side of a cell if an .npz file does not specify it."""
_NUMBERS = ("cell_m", "prevailing_deg")
"""Numbers that an .npz file may hold besides layers."""
_HEADER = ("ncols", "nrows", "cellsize")


def read_landscape(path: str | Path) -> Landscape:
    """The landscape in a file, or in a folder with a fuel.asc or fuel.tif.

    Raises:
        ConfigError: The file cannot be read or has no valid landscape; the message names the file,
            the layer and the cell.
    """
    file = Path(path)
    if file.is_dir():
        found = [file / name for name in ("fuel.asc", "fuel.tif") if (file / name).is_file()]
        if not found:
            raise ConfigError(f"{file}: the folder has neither fuel.asc nor fuel.tif.")
        file = found[0]
    readers: dict[str, Callable[[Path], tuple[dict[str, Layer], dict[str, float]]]] = {
        ".npz": _read_npz,
        ".asc": _read_ascii,
        ".tif": _read_tiff,
        ".tiff": _read_tiff,
    }
    if file.suffix.lower() not in readers:
        raise ConfigError(f"{file}: landscapes are read from .npz, .asc and .tif files.")
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file.")
    layers, numbers = readers[file.suffix.lower()](file)
    if "fuel" not in layers:
        held = ", ".join(sorted(layers)) or "nothing"
        raise ConfigError(f"{file}: the layer 'fuel' is missing; the file holds {held}.")
    fuel = layers.pop("fuel")
    return landscape_of(
        fuel,
        name=str(file),
        cell_m=numbers["cell_m"],
        prevailing_deg=numbers.get("prevailing_deg"),
        **layers,
    )


def write_npz(path: str | Path, landscape: Landscape) -> None:
    """Write a landscape; `read_landscape` returns an equal one."""
    numbers = {"cell_m": landscape.cell_m, "prevailing_deg": landscape.prevailing_deg}
    arrays: dict[str, Any] = {name: getattr(landscape, name) for name in LAYERS}
    arrays |= {name: np.array(value) for name, value in numbers.items() if value is not None}
    np.savez_compressed(path, **arrays)


def _read_npz(file: Path) -> tuple[dict[str, Layer], dict[str, float]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            # NumPy returns the bytes of members that are not arrays.
            found = {name: np.asarray(arrays[name]) for name in arrays.files}
    except Exception as error:
        # Zip, zlib and NumPy's parser of headers have more than ten kinds of errors.
        raise ConfigError(f"{file}: not an .npz file of plain arrays ({error}).") from error
    numbers = {"cell_m": CELL_M}
    for name in _NUMBERS:
        if name not in found:
            continue
        number = found.pop(name)
        if number.size != 1 or number.dtype.kind not in "biuf" or not np.isfinite(number).all():
            raise ConfigError(f"{file}: {name!r} must be one number, not {number!r}.")
        numbers[name] = float(number.ravel()[0])
    for name, layer in found.items():
        if name not in LAYERS:
            raise ConfigError(f"{file}: unknown layer {name!r}. {nearest(name, LAYERS)}")
        if layer.dtype.kind not in "biuf":
            raise ConfigError(f"{file}: the layer {name!r} holds {layer.dtype}, not numbers.")
    return found, numbers


def _read_ascii(file: Path) -> tuple[dict[str, Layer], dict[str, float]]:
    layers, sizes = {}, {}
    for name, part in _parts(file).items():
        layers[name], sizes[name] = _ascii_grid(part, name)
    _check_sizes(file, sizes)
    return layers, {"cell_m": sizes["fuel"]}


def _ascii_grid(file: Path, layer: str) -> tuple[Layer, float]:
    """One grid and the side of its cells."""
    try:
        lines = [line for line in file.read_text("ascii").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: the layer {layer!r} cannot be read ({error}).") from error
    header = _ascii_header(file, lines)
    rows, cols = (int(min(header[key], LONGEST_SIDE)) for key in ("nrows", "ncols"))
    body = lines[len(header) :]
    if len(body) != rows:
        raise ConfigError(
            f"{file}: the layer {layer!r} has {len(body)} rows, its header says {rows}."
        )
    values = []
    for row, line in enumerate(body):
        words = line.split()
        if len(words) != cols:
            raise ConfigError(
                f"{file}: row {row} of the layer {layer!r} has {len(words)} columns, the header "
                f"says {cols}."
            )
        wrong = [col for col, word in enumerate(words) if not _is_number(word)]
        if wrong:
            raise ConfigError(
                f"{file}: the layer {layer!r} has {words[wrong[0]]!r} at row {row}, column "
                f"{wrong[0]}: that is no number."
            )
        values.append([float(word) for word in words])
    grid = np.array(values, np.float64).reshape(rows, cols)
    _check_no_data(file, layer, grid == header.get("nodata_value", np.nan))
    return grid, header["cellsize"]


def _ascii_header(file: Path, lines: list[str]) -> dict[str, float]:
    header: dict[str, float] = {}
    for line in lines:
        words = line.split()
        if len(words) != 2 or _is_number(words[0]):
            break
        if not _is_number(words[1]):
            raise ConfigError(f"{file}: {words[0]} must be a number, not {words[1]!r}.")
        header[words[0].lower()] = float(words[1])
    for key in _HEADER:
        if not header.get(key, 0) > 0:
            raise ConfigError(f"{file}: the header of an ESRI ASCII grid needs {key} above 0.")
    return header


def _read_tiff(file: Path) -> tuple[dict[str, Layer], dict[str, float]]:
    try:
        import rasterio  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ConfigError(
            f'{file}: reading GeoTIFF needs rasterio: pip install "briskrl[geo]".'
        ) from error
    layers: dict[str, Layer] = {}
    sizes: dict[str, float] = {}
    for name, part in _parts(file).items():
        try:
            with rasterio.open(part) as data:
                described = [band for band in data.descriptions if band]
                names = described if len(described) == data.count and data.count > 1 else [name]
                for band, layer in enumerate(names, start=1):
                    if layer not in LAYERS:
                        raise ConfigError(
                            f"{part}: band {band} is an unknown layer {layer!r}. "
                            f"{nearest(layer, LAYERS)}"
                        )
                    layers[layer] = data.read(band)
                    sizes[layer] = float(abs(data.transform.a))
                    _check_no_data(part, layer, data.read_masks(band) == 0)
        except rasterio.errors.RasterioError as error:
            raise ConfigError(f"{part}: not a readable GeoTIFF ({error}).") from error
    _check_sizes(file, sizes)
    return layers, {"cell_m": sizes.get("fuel", CELL_M)}


def _parts(file: Path) -> dict[str, Path]:
    """The fuel's file and those beside it that hold other layers."""
    others = {name: file.with_name(name + file.suffix) for name in LAYERS if name != "fuel"}
    beside = {name: path for name, path in others.items() if path.is_file() and path != file}
    return {"fuel": file, **beside}


def _check_sizes(file: Path, sizes: dict[str, float]) -> None:
    for name, size in sizes.items():
        if abs(size - sizes.get("fuel", size)) > 1e-6 * size:
            raise ConfigError(
                f"{file}: cells of the layer {name!r} are {size:g} wide, those of 'fuel' "
                f"{sizes['fuel']:g}."
            )


def _check_no_data(file: Path, layer: str, missing: NDArray[np.bool_]) -> None:
    if missing.any():
        where = int(np.flatnonzero(missing)[0])
        raise ConfigError(
            f"{file}: the layer {layer!r} has no data at {cell_name(missing.shape, where)}, and "
            f"at {int(missing.sum())} cells in all. Crop the file or use fuel 99."
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True

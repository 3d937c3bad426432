"""Text, images and animations of landscapes."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from briskrl.envs.wildfire import render
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.fuels import fuel_table
from briskrl.envs.wildfire.landscape_pool import prepare
from briskrl.envs.wildfire.render import GAP_PX, comparison, fire_frames, write_fire_gif
from briskrl.envs.wildfire.simulate import Simulator


@pytest.fixture(scope="module")
def prepared():
    return prepare(WildfireConfig(height=8, width=9), 0)


@pytest.fixture(scope="module")
def treated(prepared):
    cells = np.zeros(72, np.bool_)
    cells[np.flatnonzero(prepared.scene.legal)[:5]] = True
    return cells


def test_every_fuel_has_a_color_and_a_letter():
    table = fuel_table()
    for code, burnable in zip(table.number.tolist(), table.burnable, strict=True):
        kind = render.family_of(code)
        assert bool(kind) == burnable
        assert kind in render.PALETTE or not burnable
        assert kind in render.LETTERS or not burnable


def test_text_shows_breaks_and_water(prepared, treated):
    text = render.ansi(prepared.scene, treated, 3, 0.25, 0.5).splitlines()
    assert text[0] == "+" + "-" * 9 + "+"
    cells = "".join(line[1:-1] for line in text[1:-2])
    assert len(cells) == 72
    assert cells.count("#") == 5
    assert cells.count("~") == int((prepared.scene.landscape.fuel == 98).sum())
    assert text[-1] == "breaks left 3  burned 25.0%  untreated 50.0%"


def test_images_are_black_where_breaks_are(prepared, treated):
    image = render.rgb(prepared.scene, treated, cell_px=4)
    assert image.shape == (32, 36, 3)
    assert image.dtype == np.uint8
    black = (image[::4, ::4] == render.BREAK).all(axis=2)
    np.testing.assert_array_equal(black.ravel(), treated)


def test_hills_are_shaded(prepared):
    landscape = prepared.scene.landscape
    light = render._hill_shade(landscape)
    towards = np.cos(np.deg2rad(landscape.aspect - render.LIGHT_FROM_DEG)) * landscape.slope
    assert np.corrcoef(light.ravel(), towards.ravel())[0, 1] > 0.9


def test_likely_cells_are_redder(prepared, treated):
    bare = np.zeros_like(treated)
    plain, hot = (
        render.rgb(prepared.scene, bare, cell_px=2, burn_prob=np.full(72, share)).astype(int)
        for share in (0.0, 1.0)
    )
    np.testing.assert_array_equal(plain, render.rgb(prepared.scene, bare, cell_px=2))
    assert (hot[..., 0] - hot[..., 2]).mean() > (plain[..., 0] - plain[..., 2]).mean() + 50


def test_contours_lie_around_the_fire(prepared, treated):
    bare = np.zeros_like(treated)
    start = int(np.flatnonzero(prepared.scene.burnable)[30])
    minutes = Simulator(prepared.scene).arrival(start, 0).minutes
    image = render.rgb(prepared.scene, bare, cell_px=8, arrival=minutes, contour_min=120)
    assert ((image == render.CONTOUR).all(axis=2)).sum() > 50


def test_frames_show_the_fire_with_and_without_breaks(tmp_path, prepared, treated):
    start = int(np.flatnonzero(prepared.scene.burnable & ~treated)[30])
    frames = fire_frames(prepared.scene, treated, start, 0, frames=7, cell_px=4)
    assert len(frames) == 7
    assert frames[0].shape == (32, 36 + GAP_PX + 36, 3)
    burning = [
        ((frame == render.FIRE).all(axis=2) | (frame == render.EMBER).all(axis=2)).sum()
        for frame in frames
    ]
    assert burning == sorted(burning)
    assert burning[0] < burning[-1]
    write_fire_gif(tmp_path / "fire.gif", frames)
    with Image.open(tmp_path / "fire.gif") as film:
        assert 1 < film.n_frames <= 7
        assert film.size == (80, 32)
    both = comparison(prepared.scene, treated, prepared.fires("test", 20), cell_px=4)
    assert both.shape == frames[0].shape


def test_environments_render_text_and_images():
    settings = {"height": 8, "width": 9, "landscapes": 1, "n_fires": 2, "obs_fires": 2}
    env = WildfireVecEnv(2, render_mode="rgb_array", cell_px=3, **settings)
    env.reset(seed=0)
    frames = env.render()
    assert [frame.shape for frame in frames] == [(24, 27, 3)] * 2
    env.set_render_mode("ansi")
    assert "breaks left 4" in env.render()[0]

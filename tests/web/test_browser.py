"""The page in a real browser: every view, keyboard, mouse, hostile names, live training."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.web.browser import SIZES, Browser, browser, needs_browser
from tests.web.dashboards import dashboard, ids_of, make_run, write_logs

pytestmark = needs_browser

HOSTILE = "<img src=x onerror=window.hacked=1>"
REPORT = {
    "version": "1",
    "took_s": 5.0,
    "speed": {"steps_per_s": 5e4, "cores_busy": 1.0, "num_envs": 64},
    "findings": [
        {
            "title": f"updates {HOSTILE}",
            "evidence": [f"half of the time {HOSTILE}"],
            "advice": "--train-steps-ratio fast",
            "gain": {"factor": 1.5, "low": 1.4, "high": 1.6},
            "basis": "measured",
            "alters_learning": "fewer updates",
        }
    ],
    "outcomes": [{"question": "Is it slow?", "change": HOSTILE, "verdict": "helps"}],
    "phases": [{"name": "act", "share": 0.5, "wall_s": 1.0, "cpu_s": 1.0}],
    "notes": [HOSTILE],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    for seed in range(3):
        make_run(folder / f"slow-{seed}", seed=seed, lr=1e-4)
        make_run(folder / f"fast-{seed}", seed=seed, lr=1e-3)
    run = folder / "fast-0"
    (run / "doctor").mkdir()
    (run / "doctor" / "report.json").write_text(json.dumps(REPORT))
    (run / "notes.md").write_text(f"A note {HOSTILE}")
    hostile = make_run(folder / HOSTILE.replace("/", ""))
    config = hostile / "config.toml"
    config.write_text(config.read_text().replace('"snake"', f"'{HOSTILE}'"))
    return folder


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with dashboard(root) as address:
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(window: Browser, url: str) -> Iterator[Browser]:
    """The table of runs, freshly loaded; the test may not leave errors in the console."""
    window.resize("desktop")
    window.open(url)
    window.js("localStorage.clear()")
    window.one("tr[data-id]")
    window.problems()
    yield window
    assert window.problems() == []
    assert window.js("return window.hacked") is None


def names(page: Browser) -> list[str]:
    """Names of the runs in the order of the table."""
    return [str(cell) for cell in page.js(
        "return [...document.querySelectorAll('td.name')].map((cell) => cell.textContent)"
    )]  # fmt: skip


def choose(page: Browser, label: str, option: str) -> None:
    """Choose an option of a select by its value."""
    page.until(lambda: page.all(f"option[value='{option}']"))
    page.js(
        """const select = [...document.querySelectorAll("select")].find((one) =>
             (one.getAttribute("aria-label") || one.parentElement.textContent)
                 .startsWith(arguments[0]));
           select.value = arguments[1];
           select.dispatchEvent(new Event("change"));""",
        label,
        option,
    )


def test_the_table_lists_all_runs_with_their_facts(page: Browser) -> None:
    assert len(names(page)) == 7
    text = page.text("tbody")
    for fact in ("finished", "snake", "dqn", "12.00", "50.0k / 50.0k", "50 %", "fast-2"):
        assert fact in text


def test_a_click_on_a_head_sorts_and_another_one_reverses(page: Browser) -> None:
    page.click("th.col-name .sort")
    assert names(page)[1:3] == ["fast-0", "fast-1"]
    page.click("th.col-name .sort")
    assert names(page)[0] == "slow-2"
    assert page.one("th.col-name").get_attribute("aria-sort") == "descending"


def test_filters_take_words_and_conditions(page: Browser) -> None:
    page.one(".filter").send_keys("slow score>10")
    page.until(lambda: sorted(names(page)) == ["slow-1", "slow-2"])
    assert "2 of 7 runs" in page.text()
    page.one(".filter").send_keys(" nonsense>1")
    page.until(lambda: "nonsense" in page.text(".problem"))
    page.one(".filter").clear()
    page.one(".filter").send_keys("no-such-run")
    page.until(lambda: "No run matches" in page.text())


def test_runs_are_grouped_by_any_setting(page: Browser) -> None:
    choose(page, "Group by", "algo_config.lr")
    page.until(lambda: len(page.all("tr.group")) == 2)
    assert "0.0001 3 runs, mean score 11.00" in " ".join(page.text("tbody").split())


def test_the_table_is_used_by_keyboard_alone(page: Browser) -> None:
    page.click("th.col-name .sort")
    page.press("j", "j", "x", "j", "x")
    page.until(lambda: len(page.all("tr.selected")) == 2)
    assert "fast-0" in page.text("#selection")
    page.press(Keys.ENTER)
    page.until(lambda: "curves" in page.driver.current_url and sum(page.drawn()) > 1000)
    page.press("1")
    page.one("tr.selected")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.all("tr.selected"))
    page.press("/")
    assert page.js("return document.activeElement.className").startswith("field")
    page.press("3", Keys.ESCAPE)
    assert page.text("#tabs [aria-selected=true]") == "Runs"
    page.press("?")
    assert "Keyboard" in page.one("dialog").text


def test_the_tabs_follow_the_arrow_keys(page: Browser) -> None:
    page.click("#tab-runs")
    page.press(Keys.ARROW_RIGHT)
    page.until(lambda: page.text("#tabs [aria-selected=true]") == "Curves")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.until(lambda: page.text("#tabs [aria-selected=true]") == "Files")


def open_curves(page: Browser, url: str, *runs: str) -> None:
    ids = ids_of(url)
    page.open(url, f"#/curves?runs={','.join(ids[run] for run in runs)}")
    page.until(lambda: len(page.drawn()) >= 6 and min(page.drawn()) > 500)


def test_curves_of_several_runs_with_their_differences(page: Browser, url: str) -> None:
    open_curves(page, url, "fast-0", "slow-1")
    text = page.text()
    for label in ("Episode score", "Episode return", "Loss", "Epsilon", "Updates per transition"):
        assert label.lower() in text.lower()
    page.until(lambda: "Settings that differ" in page.text())
    assert "0.0001" in page.text()


def test_the_crosshair_reads_values_and_a_drag_zooms(page: Browser, url: str) -> None:
    open_curves(page, url, "fast-0", "slow-0")
    chart = page.one(".chart .u-over")
    ActionChains(page.driver).move_to_element(chart).perform()
    page.until(lambda: "fast-0" in page.text(".readout") and "slow-0" in page.text(".readout"))
    drag = ActionChains(page.driver).move_to_element(chart).click_and_hold()
    drag.move_by_offset(100, 0).release().perform()
    page.until(lambda: any(b.is_displayed() for b in page.all(".toolbar .button")))
    reset = next(b for b in page.all(".toolbar .button") if b.is_displayed())
    assert reset.text == "Reset zoom"
    reset.click()
    page.until(lambda: not reset.is_displayed())


def test_charts_are_zoomed_by_keyboard(page: Browser, url: str) -> None:
    open_curves(page, url, "fast-0")
    page.js("document.querySelector('.chart').focus()")
    page.press("+")
    page.until(lambda: any(b.is_displayed() for b in page.all(".toolbar .button")))
    page.press("0")
    page.until(lambda: not any(b.is_displayed() for b in page.all(".toolbar .button")))


def test_means_over_seeds_have_an_interval(page: Browser, url: str) -> None:
    runs = [f"{speed}-{seed}" for speed in ("fast", "slow") for seed in range(3)]
    open_curves(page, url, *runs)
    choose(page, "Mean over", "seeds")
    page.until(lambda: page.text(".legend").count("3 runs, mean and 95 % interval") == 2)
    assert "lr=0.0001" in page.text(".legend")
    choose(page, "Mean over", "")
    page.until(lambda: not page.one("main").find_elements("css selector", ".legend:not([hidden])"))


def test_clocks_and_more_metrics(page: Browser, url: str) -> None:
    open_curves(page, url, "fast-0")
    page.click("[data-clock=wall_s]")
    page.until(lambda: page.one("[data-clock=wall_s]").get_attribute("aria-pressed") == "true")
    page.until(lambda: min(page.drawn()) > 500)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_at_every_size_in_both_themes(
    page: Browser, url: str, size: str, dark: bool
) -> None:
    run = ids_of(url)["fast-0"]
    page.resize(size, dark=dark)
    expected = {
        "runs": "fast-0",
        "curves": "Smoothing",
        "phases": "updating the network",
        "play": "",
        "doctor": "1.50x (1.40 to 1.60)",
        "files": 'algo = "dqn"',
    }
    for view, text in expected.items():
        page.open(url, f"#/{view}?runs={run}")
        page.until(lambda text=text: text in page.text() and len(page.text()) > 10)
        wide = page.js("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, view
        background = page.js("return getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(17, 21, 27)") == dark
        folder = os.environ.get("BRISK_SCREENSHOTS")
        if folder:
            name = f"{view}-{size}-{'dark' if dark else 'light'}.png"
            page.until(lambda view=view: view != "curves" or min(page.drawn() or [0]) > 500)
            page.driver.save_screenshot(str(Path(folder) / name))


@pytest.mark.parametrize("size", SIZES)
def test_many_settings_that_differ_widen_nothing_but_their_table(
    window: Browser, tmp_path: Path, size: str
) -> None:
    for number in range(2):
        config = make_run(tmp_path / f"run-{number}", lr=number + 1) / "config.toml"
        more = "".join(f"setting_of_a_long_name_{at} = {number}\n" for at in range(20))
        config.write_text(config.read_text() + more)
    window.resize(size)
    with dashboard(tmp_path) as url:
        window.open(url, f"#/curves?runs={','.join(ids_of(url).values())}")
        window.until(lambda: "setting_of_a_long_name_19" in window.text())
        assert window.js("return document.documentElement.scrollWidth - innerWidth") <= 0
        # The page replaces the table while data arrives.
        table = "const table = document.querySelector('.scroll');"
        window.until(lambda: window.js(f"{table} return table?.scrollWidth > table?.clientWidth"))
        assert window.problems() == []
    window.open("about:blank")
    window.problems()


def test_the_theme_is_switched_and_kept(page: Browser, url: str) -> None:
    page.press("t", "t")
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    page.open(url)
    page.one("tr[data-id]")
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    page.press("t")
    assert page.js("return document.documentElement.dataset.theme") is None


def test_texts_of_runs_stay_text(page: Browser, url: str) -> None:
    images = page.js("return document.images.length")
    assert HOSTILE in page.text("tbody")
    ids = ids_of(url)
    hostile = next(key for key in ids if key.startswith("<img"))
    for view in ("runs", "curves", "phases", "doctor", "files"):
        page.open(url, f"#/{view}?runs={ids[hostile]},{ids['fast-0']}")
        page.until(lambda: HOSTILE[:10] in page.text("body"))
        assert page.js("return document.images.length") == images
    page.open(url, f"#/doctor?runs={ids['fast-0']}")
    page.until(lambda: page.text().count(HOSTILE) == 4)
    page.open(url, f"#/files?runs={ids['fast-0']}")
    page.until(lambda: len(page.all(".files .choice button")) == 4)
    page.all(".files .choice button")[1].click()
    page.until(lambda: HOSTILE in page.text(".file"))
    assert page.js("return document.images.length") == images


def test_without_runs_the_page_says_how_to_start_one(window: Browser, tmp_path: Path) -> None:
    with dashboard(tmp_path) as url:
        for view in ("runs", "curves", "phases", "doctor", "files"):
            window.open(url, f"#/{view}")
            window.until(lambda: "No runs yet" in window.text())
        window.open(url)
        window.until(lambda: "live" in window.text("#live"))
        # The first run appears by itself.
        make_run(tmp_path / "first")
        window.until(lambda: "first" in window.text("main"))
    window.until(lambda: "reconnecting" in window.text("#live"))
    window.problems()


def test_tables_and_curves_follow_a_log_that_grows_without_layout_shifts(
    window: Browser, tmp_path: Path
) -> None:
    lock = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    run = make_run(tmp_path / "runs" / "growing")
    (run / "lock").write_text(lock)
    with dashboard(tmp_path / "runs") as url:
        window.open(url, f"#/curves?runs={ids_of(url)['growing']}")
        window.until(lambda: len(window.drawn()) >= 6)
        window.js(
            """window.shifts = 0;
               new PerformanceObserver((list) => {
                 for (const entry of list.getEntries()) window.shifts += entry.value;
               }).observe({type: "layout-shift"});"""
        )
        before = window.driver.find_element("css selector", ".chart canvas").screenshot_as_png
        write_logs(run, rows=200, first=51)
        window.until(
            lambda: (
                window.driver.find_element("css selector", ".chart canvas").screenshot_as_png
                != before
            )
        )
        assert window.js("return window.shifts") == 0
        window.press("1")
        status = json.loads((run / "status.json").read_text()) | {"env_steps": 123_000}
        (run / "status.json").write_text(json.dumps(status))
        window.until(lambda: "123k" in window.text("tbody"))
        assert "running" in window.text("tbody")
    window.problems()


def test_a_training_is_watched_live_and_the_dashboard_ends_with_it(
    window: Browser, tmp_path: Path
) -> None:
    command = [sys.executable, "-P", "-m", "briskrl", "train", "snake", "--watch"]
    command += ["--run-dir", str(tmp_path / "run"), "--steps", "500000000", "--log-seconds", "0.2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        url = next(line for line in process.stdout if line.startswith("dashboard: ")).split()[1]
        window.open(url)
        # The first start compiles kernels.
        window.until(lambda: len(window.drawn()) >= 4, seconds=300)
        window.press("1")
        steps = "return document.querySelector('tbody tr td:nth-child(7)')?.textContent || ''"
        seen = {window.until(lambda: window.js(steps))}
        for _ in range(2):
            seen.add(window.until(lambda: (new := window.js(steps)) not in seen and new))
        assert len(seen) == 3
        assert "running" in window.text("tbody")
    finally:
        process.terminate()
        process.stdout.read()
        assert process.wait(60) == 143
        process.stdout.close()
    window.until(lambda: "reconnecting" in window.text("#live"))
    window.problems()

"""The play view in a real browser: boards are drawn, keys and clicks work, nothing fails."""

from __future__ import annotations

import shutil
from contextlib import nullcontext, suppress

import pytest
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from briskrl.training.storage.stored_policies import list_policies
from tests.web.play.page_client import described

PHONE = (390, 844)
HOSTILE = "<img src=x onerror=window.hacked=1>"
# What a canvas shows, as text.
PICTURE = "return arguments[0].toDataURL()"
# The share of a canvas that is drawn on.
OPAQUE = """
    const [canvas] = arguments, copy = document.createElement("canvas");
    copy.width = copy.height = 100;
    const brush = copy.getContext("2d", {willReadFrequently: true});
    brush.drawImage(canvas, 0, 0, 100, 100);
    const {data} = brush.getImageData(0, 0, 100, 100);
    let drawn = 0;
    for (let at = 3; at < data.length; at += 4) drawn += data[at] > 0;
    return drawn / 1e4;
"""
PATIENCE_S = 90.0


class PlayPage:
    """The play view of one run."""

    def __init__(self, browser, server, run):
        self.browser = browser
        # From another page, so that the view is mounted anew.
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(f"{server.url}#/play?runs={server.run_id(run)}")
        self.until(lambda: self.one(".play-cover").get_attribute("hidden") is not None)
        self.until(lambda: self.number(".play-transport .count") >= 1)

    def until(self, holds, patience=PATIENCE_S):
        # The page may replace an element between finding and reading it.
        replaced = [StaleElementReferenceException]
        wait = WebDriverWait(self.browser, patience, 0.05, ignored_exceptions=replaced)
        return wait.until(lambda _: holds())

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def number(self, selector):
        words = self.one(selector).text.split()
        return int(words[1]) if len(words) > 1 else -1

    def fact(self, name):
        for row in self.all(".facts div"):
            if row.find_element(By.TAG_NAME, "dt").text == name:
                return row.find_element(By.TAG_NAME, "dd").text
        raise AssertionError(name)

    def press(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def button(self, text):
        return next(b for b in self.all("button") if b.text == text)

    def picture(self, canvas):
        return self.browser.execute_script(PICTURE, canvas)

    def check_quiet(self):
        """Nothing was reported on the console."""
        found = [entry["message"] for entry in self.browser.get_log("browser")]
        assert not [message for message in found if "favicon" not in message]


@pytest.fixture(autouse=True)
def leave_page(browser):
    """The player of a page must not count among those of later tests."""
    yield
    browser.get("about:blank")


@pytest.fixture
def page(browser, server, request):
    opened = PlayPage(browser, server, request.param)
    yield opened
    opened.check_quiet()


ALL = ["snake", "cage2", "ordered", "wildfire", "cartpole", "lake"]


@pytest.mark.parametrize("page", ALL, indirect=True)
def test_the_board_moves_pauses_and_steps(page):
    canvas = page.one(".play-stage canvas")
    assert page.browser.execute_script(OPAQUE, canvas) > 0.005
    before = page.picture(canvas)
    shown = page.number(".play-transport .count")
    page.until(lambda: page.picture(canvas) != before)
    page.until(lambda: page.number(".play-transport .count") != shown or page.one(".results li"))
    page.press(" ")
    page.until(lambda: page.one(".play-button").get_attribute("aria-label") == "Play")
    for attempt in range(3):
        # A game that was asked for before the pause may begin now, at its first state.
        with suppress(TimeoutException) if attempt < 2 else nullcontext():
            check_steps(page, 15.0 if attempt < 2 else PATIENCE_S)
            break
    page.press(" ")


def check_steps(page, patience):
    """Step through the first states of a paused game with the keyboard."""
    for key, step in (("r", 0), (".", 1), (".", 2), (",", 1)):
        page.press(key)
        page.until(lambda step=step: page.number(".play-transport .count") == step, patience)


@pytest.mark.parametrize("page", ["snake"], indirect=True)
def test_the_keyboard_steers_the_users_snake(page):
    page.one("[data-action=duel]").click()
    boards = page.all(".board")
    page.until(lambda: boards[1].is_displayed())
    mine = boards[1].find_element(By.TAG_NAME, "canvas")
    page.until(lambda: page.browser.execute_script(OPAQUE, mine) > 0.5)
    before = page.picture(mine)
    page.press(Keys.ARROW_UP)
    page.until(lambda: page.picture(mine) != before)
    # Straight up ends at the wall.
    page.until(lambda: boards[1].find_element(By.CSS_SELECTOR, ".quiet").text == "over")
    page.button("Stop playing").click()
    page.until(lambda: not boards[1].is_displayed())


@pytest.mark.parametrize("page", ["snake"], indirect=True)
def test_seed_game_and_policy_are_chosen(page, runs):
    assert len(page.all(".bar-row.chosen")) <= 1
    assert len(page.all(".feature")) == 11
    seed = page.one("[aria-label=Seed]")
    seed.clear()
    seed.send_keys("12", Keys.TAB)
    page.one("[aria-label='Next game']").click()
    page.until(lambda: any("seed 12, game 1" in row.text for row in page.all(".results li")))
    policies = Select(page.one("[aria-label=Policy]"))
    assert policies.options[0].text == "newest"
    policies.select_by_index(len(policies.options) - 1)
    oldest = list_policies(runs / "snake")[-1]
    page.until(lambda: page.one(".play-top .quiet").text.endswith(f", {oldest.step:,} steps"))


@pytest.mark.parametrize("page", ["wildfire"], indirect=True)
def test_clicks_place_breaks_that_are_compared_on_the_same_fires(page):
    page.until(lambda: page.all(".result-agent"))
    own = page.one(".land-own canvas")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", own)
    before = page.picture(own)
    for place in range(3):
        offset = int((place - 1) * own.size["width"] / 8)
        ActionChains(page.browser).move_to_element_with_offset(own, offset + 3, 3).click().perform()
    page.until(lambda: page.one(".result-own .name").text.startswith("Yours ("))
    page.until(lambda: page.one(".result-own .name").text != "Yours (0)")
    assert page.picture(own) != before
    for who in ("none", "agent", "own"):
        page.until(lambda who=who: page.one(f".result-{who} .number").text.endswith("%"))
    page.button("Remove your breaks").click()
    page.until(lambda: page.one(".result-own .name").text == "Yours (0)")
    page.until(lambda: page.one(".land-own b").text == page.one(".land-none b").text)


@pytest.mark.parametrize("page", ["cage2"], indirect=True)
def test_the_user_chooses_an_action_of_blue(page):
    page.one("[type=search]").send_keys("restore op_server")
    page.until(lambda: len(page.all(".actions button")) == 1)
    page.one(".actions button").click()
    page.until(lambda: "Restore Op_Server0" in page.one(".says").text)
    page.until(lambda: page.all(".move .human"))
    assert page.one(".move .human").text.startswith("Restore Op_Server0")
    step = page.number(".play-transport .count")
    page.one(".play-button").click()
    page.until(lambda: page.number(".play-transport .count") > step)
    assert page.fact("Agent alone") != "-"
    canvas = page.one(".network")
    page.press(" ")
    page.until(lambda: page.one(".play-button").get_attribute("aria-label") == "Play")
    both = page.picture(canvas)
    page.one("[data-name=belief]").click()
    page.until(lambda: page.picture(canvas) != both)


@pytest.mark.parametrize("page", ["ordered"], indirect=True)
def test_the_order_to_follow_is_above_the_network(page):
    assert len(page.all(".order-list li")) == 5
    page.until(lambda: page.all(".order-list .required"))
    page.press(" ")
    page.until(lambda: page.one(".play-button").get_attribute("aria-label") == "Play")
    # Blue does not know what is open.
    page.one("[data-name=belief]").click()
    page.until(lambda: not page.all(".order-list .open"))
    page.one("[type=search]").send_keys("restore op_server")
    page.until(lambda: len(page.all(".actions button")) == 1)
    page.one(".actions button").click()
    page.until(lambda: page.all(".move .human"))
    move = page.one(".move .human").text
    assert move.startswith("Restore Op_Server0 (")
    assert "(you)" in move
    assert "repairs in order" in page.one(".order-row").text


@pytest.mark.parametrize("page", ["cage2"], indirect=True)
def test_without_a_workflow_there_is_no_order(page):
    assert not page.one(".order-row").is_displayed()


def test_a_killed_player_is_shown_and_can_be_started_again(browser, server):
    import psutil

    page = PlayPage(browser, server, "cartpole")
    for child in psutil.Process(server.process.pid).children():
        child.kill()
    page.until(lambda: page.all(".play-cover .empty[data-code=died]"))
    assert "SIGKILL" in page.one(".play-cover").text
    page.button("Try again").click()
    page.until(lambda: page.one(".play-cover").get_attribute("hidden") is not None)
    page.check_quiet()


@pytest.mark.parametrize("run", ["snake", "cage2", "ordered", "wildfire"])
def test_everything_fits_on_a_phone(browser, server, run):
    width, height = PHONE
    metrics = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = PlayPage(browser, server, run)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        canvas = page.one(".play-stage canvas")
        # Two pixels of the canvas for one of the page.
        assert int(canvas.get_attribute("width")) == round(2 * canvas.size["width"])
        page.check_quiet()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_and_errors_of_a_run_are_text(browser, own_server, runs, tmp_path):
    folder = tmp_path / "runs" / "hostile"
    shutil.copytree(runs / "lake", folder)
    described(folder, env=f"gym:{HOSTILE}-v0")
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(f"{own_server.url}#/play?runs={own_server.run_id('hostile')}")
    cover = WebDriverWait(browser, PATIENCE_S, 0.05).until(
        lambda page: page.find_elements(
            By.CSS_SELECTOR, ".play-cover .empty[data-code=environment]"
        )
    )
    assert HOSTILE in cover[0].text
    assert not browser.find_elements(By.CSS_SELECTOR, "main img")
    assert not browser.execute_script("return window.hacked")
    assert not browser.get_log("browser")

"""Chromium, headless, driven through its driver; tests that need it skip where it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs a browser: apt-get install chromium chromium-driver",
)
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
WAIT_S = 30
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-prefers-reduced-motion", "--hide-scrollbars"),
)


class Browser:
    """A window with the page in it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def resize(self, size: str, *, dark: bool = False) -> None:
        """Take the size of a device, and its theme."""
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**metrics, "mobile": size == "phone"}
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, url: str, address: str = "") -> None:
        """Load the page anew."""
        self.driver.get("about:blank")
        self.driver.get(url + address)

    def all(self, selector: str) -> list[WebElement]:
        """Elements that match."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first element that matches, as soon as there is one that can be seen."""
        return self.until(lambda: next((e for e in self.all(selector) if e.is_displayed()), None))

    def click(self, selector: str) -> None:
        """Click on the first element that matches; the page may replace it at any time."""
        self.until(lambda: self.one(selector).click() is None)

    def text(self, selector: str = "main") -> str:
        """The text of an element as it is shown."""
        return str(
            self.js("return document.querySelector(arguments[0])?.innerText || ''", selector)
        )

    def js(self, script: str, *arguments: Any) -> Any:
        """The result of a script."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def until(self, condition: Any, *, seconds: float = WAIT_S) -> Any:
        """The first true result of a condition.

        Raises:
            TimeoutException: There was none.
        """
        return WebDriverWait(
            self.driver, seconds, 0.05, ignored_exceptions=[StaleElementReferenceException]
        ).until(lambda _: condition())

    def problems(self) -> list[str]:
        """Errors and warnings of the console since the last call; hints on `drawn` are none."""
        found: list[dict[str, str]] = self.driver.get_log("browser")
        return [
            entry["message"]
            for entry in found
            if entry["level"] != "INFO" and "willReadFrequently" not in entry["message"]
        ]

    def drawn(self, selector: str = ".chart canvas") -> list[int]:
        """Painted pixels of every canvas that matches."""
        return list(
            self.js(
                """return [...document.querySelectorAll(arguments[0])].map((canvas) => {
                  const {width, height} = canvas;
                  if (!width || !height) return 0;
                  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
                  let painted = 0;
                  for (let at = 3; at < data.length; at += 4) if (data[at]) painted++;
                  return painted;
                })""",
                selector,
            )
        )


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile."""
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        window = Browser(driver)
        window.resize("desktop")
        yield window
    finally:
        driver.quit()

"""A headless Chromium, its requests and its console messages."""

import contextlib
import json
import os
import time
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1360,940",
)
BINARIES = {"binary": "/usr/bin/chromium", "driver": "/usr/bin/chromedriver"}


class Browser:
    """A driver with the few actions that these tests need.

    Args:
        driver: the selenium driver.
        folder: where pictures of the page are saved, or None.
    """

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, path):
        """Open a file and wait until it is drawn; return how many milliseconds that took by the page's own clock."""
        self.load(path)
        for _ in range(600):
            if self.js("return document.documentElement.dataset.ready") == "yes":
                return self.js("return performance.now()")
            time.sleep(0.05)
        raise AssertionError(f"the page is not drawn: {self.driver.get_log('browser')}")

    def load(self, path):
        """Load a file, of which the messages before are forgotten."""
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(Path(path).resolve().as_uri())

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def click(self, selector, place=0):
        self.all(selector)[place].click()
        self.settle()

    def tab(self, name):
        """Open a view and wait until its arrays are unpacked."""
        self.click(f"#tab-{name}")
        for _ in range(200):
            if self.all(f"#panel-{name} .split:not([hidden] *)"):
                break
            time.sleep(0.02)
        self.settle()

    def hover(self, target):
        from selenium.webdriver.common.action_chains import ActionChains

        target = self.one(target) if isinstance(target, str) else target
        self.js("arguments[0].scrollIntoView({ block: 'nearest' })", target)
        ActionChains(self.driver).move_to_element(target).perform()
        self.settle()

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            self.settle()

    def settle(self):
        """Two frames later everything is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    @contextlib.contextmanager
    def screen(self, width, height=844, scheme="light"):
        """A screen of this size in pixels whose system wants a light or dark page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def views(self):
        """The names of the page's views."""
        return [tab.get_attribute("id").removeprefix("tab-") for tab in self.all("#tabs [role='tab']")]

    def violations(self):
        """What axe-core finds wrong with the page as it is: names, contrast, landmarks, order of headings."""
        self.js(Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js")).read_text(encoding="utf-8"))
        return self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then(({ violations }) => done(violations.map("
            "({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`)))"
        )

    def text(self, selector, place=0):
        return self.js("return arguments[0].textContent", self.all(selector)[place])

    def picture(self, name):
        if self.folder:
            self.driver.save_screenshot(str(self.folder / f"{name}.png"))

    def check_quiet(self):
        """No line in the console, and no request except the one for the file."""
        assert self.driver.get_log("browser") == []
        messages = [json.loads(row["message"])["message"] for row in self.driver.get_log("performance")]
        asked = [row["params"]["request"]["url"] for row in messages if row["method"] == "Network.requestWillBeSent"]
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:null", "about:"))] == []
        assert len([url for url in asked if url.startswith("file:")]) <= 1


@contextlib.contextmanager
def chromium(profile):
    """A selenium driver, until the context ends.

    Args:
        profile: an empty folder for the profile of the user.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = os.environ.get("CHROMIUM", BINARIES["binary"])
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(os.environ.get("CHROMEDRIVER", BINARIES["driver"])))
    try:
        yield driver
    finally:
        driver.quit()

"""Opens noVNC's page in Chromium until it shows the screen of a guest.

Usage: console_page.py URL SCREENSHOT     prints what the bar at the top says

Needs selenium, Chromium and its driver.
"""

import shutil
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

# Seconds.
LIMIT = 60
# Whether something bright is drawn: the text of the firmware, for example.
IS_DRAWN = """
const canvas = document.querySelector("canvas");
if (!canvas || canvas.width < 300) return false;
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
return pixels.some((value, at) => at % 4 != 3 && value > 100);
"""


def main(url, screenshot):
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=900,600"):
        options.add_argument(argument)
    # Without the paths selenium downloads a browser.
    options.binary_location = shutil.which("chromium")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.get(url)
        wait = WebDriverWait(browser, LIMIT)
        status = lambda: browser.find_element("id", "status").text
        wait.until(lambda _: status().startswith("Connected to"))
        wait.until(lambda page: page.execute_script(IS_DRAWN))
        browser.save_screenshot(screenshot)
        print(status())
    finally:
        browser.quit()


main(*sys.argv[1:])

"""Takes pictures of every screen of a running Takeover, to be looked at: `bin/screenshots --out FOLDER`."""

import argparse
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

WIDTHS = {1440: 900, 1024: 768, 360: 740}
THEMES = ("light", "dark")
LANGUAGES = ("en", "zh-hans")
PASSWORD = "takeover-demo"  # of the demo
OPEN = "a.open"
# Name, who looks, where, and what is pressed there to get to the screen itself.
SCREENS: tuple[tuple[str, str, str, str], ...] = (
    ("sign-in", "", "/sign-in/", ""),
    ("queue", "support", "/", ""),
    ("queue-waiting", "support", "/?tab=waiting", ""),
    ("queue-limit", "support", "/?tab=limit", ""),
    ("queue-closed", "support", "/?tab=closed", ""),
    ("queue-found", "support", "/?q=B4", ""),
    ("queue-empty", "support", "/?q=nothing-of-this-name", ""),
    ("case-human", "support", "/", OPEN),
    ("case-waiting", "support", "/?tab=waiting", OPEN),
    ("case-limit", "support", "/?tab=limit", OPEN),
    ("case-approval", "supervisor", "/?tab=approval", OPEN),
    ("case-closed", "support", "/?tab=closed", OPEN),
    ("event", "support", "/?tab=waiting", f"{OPEN}, a#act-evidence_supplied"),
    ("approvals", "supervisor", "/approvals/", ""),
    ("approvals-may-not", "support", "/approvals/", ""),
    ("outcomes", "administrator", "/outcomes/", ""),
    ("you", "support", "/you/", ""),
    ("missing", "support", "/runs/00000000-0000-0000-0000-000000000000/", ""),
)


def sign_in(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}/sign-in/")
    page.fill("[name=username]", name)
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url(re.compile(rf"{re.escape(url)}/(?!sign-in)"))


def rooms(browser: Browser, url: str, wanted: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Page]]]:
    """Theme and language, and a page for each person, already signed in."""
    people = sorted({who for _name, who, _path, _press in SCREENS})
    for language in wanted.languages:
        for theme in wanted.themes:
            pages = {}
            for who in people:
                context = browser.new_context(color_scheme=theme, locale="zh-CN" if language == "zh-hans" else "en-GB")
                context.add_cookies([{"name": "language", "value": language, "url": url}])
                pages[who] = context.new_page()
                if who:
                    sign_in(pages[who], url, who)
            yield theme, language, pages
            for page in pages.values():
                page.context.close()


def picture(page: Page, url: str, path: str, press: str, width: int, to: Path) -> None:
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.goto(url + path)
    for selector in filter(None, press.split(", ")):
        if not page.locator(selector).count():
            print(f"{to.name}: nothing to press at {selector}")
            return
        page.locator(selector).first.click()
        page.wait_for_load_state()
    page.wait_for_timeout(250)  # what the page asks for once it is there
    page.screenshot(path=to, full_page=True)
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    print(f"{to.name}{f': {wide} px too wide' if wide > 0 else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:8000", help="where Takeover runs, with its demo")
    parser.add_argument("--out", type=Path, default=Path("pictures"), help="folder for the pictures")
    parser.add_argument("--only", default="", metavar="TEXT", help="screens with this in their name")
    parser.add_argument("--widths", nargs="+", type=int, choices=WIDTHS, default=list(WIDTHS))
    parser.add_argument("--themes", nargs="+", choices=THEMES, default=list(THEMES))
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=list(LANGUAGES))
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    url = wanted.url.rstrip("/")
    chromium = os.environ.get("BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        for theme, language, pages in rooms(browser, url, wanted):
            for name, who, path, press in SCREENS:
                if wanted.only in name:
                    for width in wanted.widths:
                        to = wanted.out / f"{name}-{width}-{theme}-{language}.png"
                        picture(pages[who], url, path, press, width, to)
        browser.close()


if __name__ == "__main__":
    main()

"""Open every built page in a browser: dead links, missing images, overflow, errors.

python -m docs.check                       after `make docs`; `make docs-check` does both
python -m docs.check --pictures DIR PAGE   also screenshots of the pages named (index.html, ...)

Each page is opened once in headless Chromium and looked at as a desktop and as a telephone would
show it, in light and in dark.  Nothing but the built pages is asked for: requests to other servers
are errors, because readers of these pages should meet nobody else.  Links to other sites are not
followed.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

BUILT = Path(__file__).resolve().parent / "_build" / "html"
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"]  # fmt: skip

#: So many pages of source are opened; links are followed on all of them.
OF_SOURCE = 3

#: Screenshots end here; proofs are long.
TALLEST = 5_000

#: Missing images, and what sticks out to the right of the page and does not scroll on its own.
LOOK = """() => {
  const missing = [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src);
  const room = document.documentElement.clientWidth;
  const out = [];
  if (document.documentElement.scrollWidth > room + 1) {
    for (const e of document.querySelectorAll('main *, article *')) {
      if (e.getBoundingClientRect().right > room + 1 && out.length < 3)
        out.push(e.tagName.toLowerCase() + (e.className ? '.' + e.className : ''));
    }
    if (!out.length) out.push('something');
  }
  return {missing, out};
}"""

#: Formulas that MathJax could not read are shown in red, with the reason.
UNREAD = "() => [...document.querySelectorAll('mjx-merror')].map(e => e.textContent.slice(0, 80))"


class Trouble(NamedTuple):
    page: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.page} ({self.where}): {self.what}"


# ---- links, which need no browser ------------------------------------------------------------


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names.update(v for k in ("id", "name") if (v := found.get(k)))
        if tag in ("a", "link") and found.get("href"):
            self.links.append(found["href"] or "")
        if tag in ("img", "script", "iframe") and found.get("src"):
            self.links.append(found["src"] or "")
        if tag == "img" and not found.get("alt"):
            self.silent.append((found.get("src") or "")[:60])


def dead_links(built: Path) -> Iterator[Trouble]:
    """Links within the pages that lead nowhere, and images without a word for who cannot see."""
    pages = {}
    for path in sorted(built.rglob("*.html")):
        anchors = _Anchors()
        anchors.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(built).as_posix()] = anchors
    for page, anchors in pages.items():
        for source in anchors.silent:
            yield Trouble(page, "source", f"image without alternative text: {source}")
        for link in dict.fromkeys(anchors.links):
            address, name = urldefrag(link)
            if urlsplit(link).scheme:
                continue
            target = unquote(urljoin(page, urlsplit(address).path)) if address else page
            if not (built / target).is_file():
                yield Trouble(page, "source", f"dead link: {link}")
            elif name and target in pages and unquote(name) not in pages[target].names:
                yield Trouble(page, "source", f"dead link: no such place on the page: {link}")


# ---- pages, in a browser ---------------------------------------------------------------------


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        pass


def looked_at(built: Path, browser: str, pages: list[str], shots: Path | None, shown: list[str]
              ) -> Iterator[Trouble]:  # fmt: skip
    """What is wrong with each page as it is seen."""
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(built))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    try:
        with sync_playwright() as player:
            chromium = player.chromium.launch(executable_path=browser, args=OPTIONS)
            view = chromium.new_page()
            said: list[str] = []
            view.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
            view.on("pageerror", lambda error: said.append(str(error)))
            view.on("requestfailed", lambda r: said.append(f"request failed: {r.url}"))
            view.on(
                "request",
                lambda r: None if r.url.startswith((home, "data:", "blob:"))
                else said.append(f"asks another server: {r.url}"),
            )  # fmt: skip
            for page in pages:
                said.clear()
                view.set_viewport_size(
                    dict(zip(("width", "height"), WIDTHS["desktop"], strict=True))
                )
                view.goto(home + page, wait_until="load")
                view.evaluate("() => window.MathJax?.startup?.promise")
                for text in view.evaluate(UNREAD):
                    yield Trouble(page, "formula", text)
                yield from _in_every_way(view, page, shots if page in shown else None)
                for text in dict.fromkeys(said):
                    yield Trouble(page, "console", text)
            chromium.close()
    finally:
        server.shutdown()


def _in_every_way(view: Any, page: str, shots: Path | None) -> Iterator[Trouble]:
    for device, (width, height) in WIDTHS.items():
        view.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            view.evaluate("theme => { document.body.dataset.theme = theme }", theme)
            view.evaluate("() => new Promise(requestAnimationFrame)")
            found = view.evaluate(LOOK)
            for source in found["missing"]:
                yield Trouble(page, f"{device}, {theme}", f"missing image: {source[:80]}")
            for what in found["out"]:
                yield Trouble(page, f"{device}, {theme}", f"wider than the screen: {what}")
            if shots is not None:
                name = page.replace("/", "-").removesuffix(".html")
                tall = view.evaluate("() => document.documentElement.scrollHeight")
                clip = {"x": 0, "y": 0, "width": width, "height": min(tall, TALLEST)}
                view.screenshot(
                    path=shots / f"{name}-{device}-{theme}.png",
                    full_page=True,
                    clip=clip,
                    timeout=0,
                )


def found_browser() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--built", type=Path, default=BUILT, help="folder of the built pages")
    parser.add_argument("--pictures", type=Path, help="folder for screenshots")
    parser.add_argument("--only", action="store_true", help="open the pages named, and no others")
    parser.add_argument("shown", nargs="*", help="pages of which screenshots are made")
    options = parser.parse_args(arguments)
    pages = sorted(p.relative_to(options.built).as_posix() for p in options.built.rglob("*.html"))
    if not pages:
        print(f"there is nothing in {options.built}: `make docs` comes first", file=sys.stderr)
        return 2
    browser = found_browser()
    if browser is None:
        print("no Chromium was found; CHROMIUM=/path/to/it names one", file=sys.stderr)
        return 2
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
    alike = [page for page in pages if page.startswith("_modules/")]  # source: no page differs
    opened = options.shown if options.only else sorted({*pages} - {*alike[OF_SOURCE:]})
    troubles = [] if options.only else list(dead_links(options.built))
    troubles += looked_at(options.built, browser, opened, options.pictures, options.shown)
    for trouble in troubles:
        print(trouble)
    print(f"{len(opened)} pages, each at {len(WIDTHS)} widths and in {len(THEMES)} themes: "
          f"{len(troubles)} troubles")  # fmt: skip
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())

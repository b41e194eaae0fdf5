"""Print pages of a site that was built as PDF files that can be sent to others; without Chromium none is printed.

    python docs/print_pages.py docs/_build/html

Links to other pages of the site become text, because they would lead into a folder of the one who prints.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ON_ONE_PAGE = """
  @page { margin: 12mm 18mm }
  html { font-size: 9.4pt } body { line-height: 1.3 } .content { padding: 0 }
  h1 { font-size: 1.9em; margin: 0 0 0.6em } p { margin: 0.5em 0 } img { max-height: 4.6cm; width: auto }
  ::-webkit-scrollbar { display: none } .table-wrapper, .table-wrapper table, ol { margin: 0.3em 0 !important }
"""
PRINTED = {"report": "", "managers": ON_ONE_PAGE}
"""Pages, with styles of their own."""
LINK = re.compile(r'<a\b[^>]*\bhref="(?P<to>[^"]*)"[^>]*>(?P<text>.*?)</a>', re.DOTALL)
ONLY_LINKS = re.compile(r"<p>(?:\s|·|<a\b[^>]*>(?:(?!</?p>|</a>).)*</a>)*</p>", re.DOTALL)
FOOTER = re.compile(r"<footer\b.*?</footer>", re.DOTALL)


def to_send(page: str, style: str) -> str:
    """A page without what is of use on its site only."""
    page = ONLY_LINKS.sub("", FOOTER.sub("", page))
    page = LINK.sub(lambda link: link[0] if re.match(r"https?://|#", link["to"]) else f"<span>{link['text']}</span>", page)
    return page.replace("</head>", f"<style>@media print {{ {style} }}</style></head>", 1)


def main(site: Path) -> int:
    """Print the pages of a site into its folder."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.stdout.write(f"== no Chromium here: {' and '.join(f'{name}.pdf' for name in PRINTED)} are left out\n")
        return 0
    # Chromium refuses to run as root in its sandbox.
    options = ["--headless", "--disable-gpu", "--no-pdf-header-footer", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    for name, style in PRINTED.items():
        sys.stdout.write(f"== printing {site / name}.pdf\n")
        sys.stdout.flush()
        copy = site / f"{name}-to-send.html"
        try:
            copy.write_text(to_send((site / f"{name}.html").read_text(encoding="utf-8"), style), encoding="utf-8")
            target = f"--print-to-pdf={site / name}.pdf"
            subprocess.run([browser, *options, target, copy.resolve().as_uri()], check=True, stderr=subprocess.DEVNULL)  # noqa: S603
        finally:
            copy.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Settings of the documentation; `make docs` builds it from the installed package."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gallery  # noqa: E402  beside this file
from search_words import WORDS  # noqa: E402

project = "dpcore"
author = "The dpcore maintainers"
copyright = "the dpcore maintainers, Apache-2.0"
version = release = installed_version("dpcore")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
exclude_patterns = ["_build"]

# `name` in a docstring is a link where the name is documented and code where it is not.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"dpcore {release}"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Pages that say how to do a thing come before proofs and references.
html_search_scorer = str(HERE / "search_scorer.js")

# What the programs of the gallery write is copied into the site as it is.
EXTRA = HERE / "_build" / "extra"
EXTRA.mkdir(parents=True, exist_ok=True)
html_extra_path = [str(EXTRA.relative_to(HERE))]


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def _make_gallery(app: Sphinx) -> None:
    if app.builder.format == "html":
        gallery.make(EXTRA / gallery.FOLDER)


def _add_search_words(app: Sphinx, doctree: nodes.document) -> None:
    """Make the words of a page entries of the index, which the search puts first."""
    ids = {name for section in doctree.findall(nodes.section) for name in section["ids"]}
    for place, words in WORDS.items():
        page, _, anchor = place.partition("#")
        if page != app.env.docname:
            continue
        if anchor and anchor not in ids:
            raise ExtensionError(f"docs/search_words.py: {page} has no section {anchor}")
        first = next(iter(doctree.findall(nodes.section)))
        entries = [("single", word, anchor or first["ids"][0], "main", None) for word in words]
        first.insert(1, addnodes.index(entries=entries))


def _add_references(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the works that the report cites at its end, as the page on literature has them: the report is read alone, too."""
    if page != "report":
        return
    cited = " ".join(source[0].split())
    literature = (HERE / "literature.md").read_text(encoding="utf-8")
    for authors, when, work in re.findall(r"^- \*\*(.+?) \((\d{4})\)\.\*\*\s+(.+?)\s+Taken: ", literature, re.MULTILINE | re.DOTALL):
        if re.search(rf"(?<!& ){re.escape(authors)}(?: \(|, ){when}", cited):
            source[0] += f"\n- **{authors} ({when}).** {' '.join(work.split())}"


def setup(app: Sphinx) -> None:
    """Write formulas as MathML, which browsers show themselves: the usual renderer loads a script from elsewhere at every visit."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline_math, None), block_renderers=(_display_math, None))
    app.connect("builder-inited", _make_gallery)
    app.connect("source-read", _add_references)
    app.connect("doctree-read", _add_search_words)

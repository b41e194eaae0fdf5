"""Settings of the documentation; `make docs` builds it from the installed package."""

from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

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


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Write formulas as MathML, which browsers show themselves: the usual renderer loads a script from elsewhere at every visit."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline_math, None), block_renderers=(_display_math, None))

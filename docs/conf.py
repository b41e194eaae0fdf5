"""Settings of the documentation; `make docs` builds it from the installed package."""

from importlib.metadata import version as installed_version

project = "dpcore"
author = "The dpcore maintainers"
copyright = "the dpcore maintainers, Apache-2.0"
version = release = installed_version("dpcore")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
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

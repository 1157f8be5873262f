"""How Sphinx builds the pages of docs/: `make docs`."""

import aof2

project = "aof2"
author = "the aof2 authors"
copyright = "the aof2 authors, Apache-2.0"
release = version = aof2.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
]
exclude_patterns = ["_build"]
# Pages link to sections of each other by their headings.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "smartquotes"]

# A name in single backticks of a docstring is a link where it can be one.
default_role = "py:obj"
# `bytes` is a type, and a field of several reports: nobody has to choose.
suppress_warnings = ["ref.python"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"

html_theme = "furo"
html_title = f"aof2 {release}"
html_static_path = ["_static"]
html_css_files = ["aof2.css"]
html_theme_options = {
    "source_repository": "https://github.com/aof2/aof2/",
    "source_branch": "main",
    "source_directory": "docs/",
}

"""Sphinx's configuration; `make docs` builds the site into build/docs/html."""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.testing import CliRunner

import dualsweep
from dualsweep.cli import app as commands

project = "dualsweep"
author = "The dualsweep developers"
copyright = author
release = version = dualsweep.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["sg_execution_times.rst", "gallery/sg_execution_times.rst"]
default_role = "py:obj"  # `LinearSVC` in a docstring is a link, `X` is not

# Pages are Markdown that also reads well where the files are.
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say more
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",  # other files are programs that stand alone
    "ignore_pattern": r"(^|/)(?!plot_)\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 600,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "dualsweep"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"changelog": [], "citing": [], "alternatives": []}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def point_into_the_site(app, docname, source):
    """Links to a page outside docs/ lead to the one that includes it; those to folders, nowhere."""
    text = source[0].replace("../benchmarks/README.md", "measuring.md")
    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./)+(benchmarks|examples)[\w/]*\)", r"\1", text)


def skip_what_is_not_ours(app, what, name, member, skip, options):
    """Leave out what scikit-learn's and Python's own classes add, which is documented there."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    return skip or not str(getattr(function, "__module__", "")).startswith("dualsweep")


class Help(SphinxDirective):
    """What a command says to --help."""

    optional_arguments = 1

    def run(self):
        """Return it as it is shown in a terminal of 80 columns."""
        words = [*self.arguments, "--help"]
        shown = CliRunner().invoke(commands, words, prog_name="dualsweep", env={"COLUMNS": "80"})
        lines = (line.rstrip() for line in shown.stdout.strip("\n").splitlines())
        return [nodes.literal_block(text="\n".join(lines), language="none")]


def setup(app):
    """Connect the functions above."""
    app.add_directive("help", Help)
    app.connect("source-read", point_into_the_site)
    app.connect("autodoc-skip-member", skip_what_is_not_ours)

"""After step 02: the YAML with which MindSpore Transformers (package mindformers) trains what `convert` wrote."""

from mindport.mindformers.export import ExportReport, export
from mindport.mindformers.layout import Layout, parse_layout
from mindport.mindformers.recipe import Recipe

__all__ = ["ExportReport", "Layout", "Recipe", "export", "parse_layout"]

"""Magics, completion, progress and widgets: the only package that knows IPython."""

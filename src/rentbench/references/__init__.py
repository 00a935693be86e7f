"""Figures from elsewhere: published tables, and other tools' output, as documents of kind `published`."""

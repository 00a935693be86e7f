"""Prices and costs."""

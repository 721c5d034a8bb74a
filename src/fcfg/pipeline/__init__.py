"""Counterfactuals from images: abduction, action, prediction; saving, loading, execution."""

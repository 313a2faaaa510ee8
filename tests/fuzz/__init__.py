"""Fuzzers: run by hand, with time; what they find becomes a test."""

"""Turns rows and diagnoses of operators into plain values for templates."""

"""Checkpoints: what is kept, what is refused, and what a killed process leaves."""

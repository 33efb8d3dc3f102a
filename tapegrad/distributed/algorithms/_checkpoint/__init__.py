"""Modules whose forward is computed again in backward."""

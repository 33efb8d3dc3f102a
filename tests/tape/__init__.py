"""Tests of the tape as an object."""

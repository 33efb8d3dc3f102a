"""The tape as an object, one file per part of tapegrad/tape."""

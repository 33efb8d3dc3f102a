"""Features of the library in pairs, on models of every kind, against the plain run."""

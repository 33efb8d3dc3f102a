"""8-bit floats and wide unsigned integers: storage, casts, the few ops that they have."""

"""Complex numbers: tensors of them, their ops and their gradients."""

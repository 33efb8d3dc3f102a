"""PyTorch's old module of ops of one's own; `torch.library` has what is there."""

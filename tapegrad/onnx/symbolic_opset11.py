"""PyTorch's table of symbolic functions, by name only: `torch.onnx.export` needs none."""

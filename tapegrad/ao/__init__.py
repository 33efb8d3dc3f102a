"""Of PyTorch's `torch.ao` what models import that may be quantized; nothing is quantized here."""

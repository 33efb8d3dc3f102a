"""vit-pytorch: two vision transformers train a few steps."""

import torch
from common import array, integers, set_weights, show, train
from vit_pytorch import SimpleViT, ViT

images, labels = array(2, 3, 16, 16), integers(5, 2)
sizes = {
    "image_size": 16,
    "patch_size": 8,
    "num_classes": 5,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 48,
}
for model in (ViT(**sizes), SimpleViT(**sizes)):
    set_weights(model)
    step = lambda m=model: torch.nn.functional.cross_entropy(m(images), labels)  # noqa: E731
    name = type(model).__name__
    show(name, train(step, None, 4, torch.optim.Adam(model.parameters(), 1e-3)))
    show(f"{name} logits", model.eval()(images))

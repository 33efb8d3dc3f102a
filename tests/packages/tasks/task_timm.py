"""timm: a ResNet-18 and a vision transformer train, and give features."""

import timm.optim
import torch
from common import array, integers, set_weights, show, train

images, labels = array(4, 3, 64, 64), integers(5, 4)
vit = {"img_size": 64, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
for name, options in (("resnet18", {}), ("vit_tiny_patch16_224", vit)):
    model = set_weights(timm.create_model(name, pretrained=False, num_classes=5, **options), 0.05)
    model.train()
    step = lambda m=model: torch.nn.functional.cross_entropy(m(images), labels)  # noqa: E731
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=1e-2, weight_decay=0.05)
    show(name, train(step, None, 3, optimizer))
    model.eval()
    with torch.no_grad():
        show(f"{name} logits", model(images))
        show(f"{name} features", model.forward_features(images).abs().mean())
stages = set_weights(
    timm.create_model("resnet18", features_only=True, out_indices=(1, 3)), 0.05
).eval()
with torch.no_grad():
    show("stages", torch.stack([each.mean() for each in stages(images)]))

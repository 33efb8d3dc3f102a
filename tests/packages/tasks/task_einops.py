"""einops: rearrange, reduce, repeat, einsum, packing and a layer, forward and backward."""

import torch
from common import array, set_weights, show, train
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange

images = array(2, 3, 8, 8)
show("patches", rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4).sum(-1))
show("mean", reduce(images, "b c (h 2) (w 2) -> b c h w", "mean")[0, 0])
show("max", reduce(images, "b c h w -> b c", "max"))
show("repeat", repeat(images[0, 0, 0], "w -> (w k)", k=2))
show("einsum", einsum(images, images, "b c h w, b d h w -> b c d"))
packed, shapes = pack([images, images[:, 0]], "b * w")
show("unpacked", unpack(packed, shapes, "b * w")[1].sum((1, 2)))

model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    EinMix("b t i -> b t o", weight_shape="i o", bias_shape="o", i=48, o=5),
)
set_weights(model)
show("losses", train(lambda: model(images).square().mean(), model.parameters()))

"""Tensor methods that PyTorch has as functions, too, most of them in place."""

from tapegrad._C import Tensor

__all__ = [
    "addmv_",
    "arccos_",
    "arccosh_",
    "arcsin_",
    "arcsinh_",
    "arctan_",
    "arctanh_",
    "clamp_",
    "clamp_max_",
    "clamp_min_",
    "clip_",
    "detach_",
    "fill_",
    "fix_",
    "gcd_",
    "get_device",
    "index_put_",
    "is_inference",
    "lcm_",
    "nan_to_num_",
    "negative_",
    "resize_as_",
    "round_",
    "xlogy_",
    "zero_",
]

addmv_ = Tensor.addmv_
arccos_ = Tensor.arccos_
arccosh_ = Tensor.arccosh_
arcsin_ = Tensor.arcsin_
arcsinh_ = Tensor.arcsinh_
arctan_ = Tensor.arctan_
arctanh_ = Tensor.arctanh_
clamp_ = Tensor.clamp_
clamp_max_ = Tensor.clamp_max_
clamp_min_ = Tensor.clamp_min_
clip_ = Tensor.clip_
detach_ = Tensor.detach_
fill_ = Tensor.fill_
fix_ = Tensor.fix_
gcd_ = Tensor.gcd_
get_device = Tensor.get_device
index_put_ = Tensor.index_put_
is_inference = Tensor.is_inference
lcm_ = Tensor.lcm_
nan_to_num_ = Tensor.nan_to_num_
negative_ = Tensor.negative_
resize_as_ = Tensor.resize_as_
round_ = Tensor.round_
xlogy_ = Tensor.xlogy_
zero_ = Tensor.zero_

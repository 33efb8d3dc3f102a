"""captum: attributions by gradients, by paths, by ablation and by layers."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GuidedGradCam,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    NeuronGradient,
    Occlusion,
    Saliency,
)
from common import array, set_weights, show


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act = torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU()
        self.head = torch.nn.Linear(4 * 16, 3)

    def forward(self, x):
        return self.head(self.act(self.conv(x)).flatten(1))


net, x = set_weights(Net(), 0.3).eval(), array(2, 1, 6, 6)
show("saliency", Saliency(net).attribute(x, target=1).sum((2, 3)))
paths, delta = IntegratedGradients(net).attribute(
    x, target=1, n_steps=20, return_convergence_delta=True
)
show("integrated", paths[:, 0, 2])
show("delta", delta)
show("deep lift", DeepLift(net).attribute(x, baselines=0 * x, target=2)[:, 0, 3])
show("ablation", FeatureAblation(net).attribute(x, target=0)[:, 0, 1])
show("occlusion", Occlusion(net).attribute(x, (1, 3, 3), strides=(1, 3, 3), target=0)[0, 0])
show("conductance", LayerConductance(net, net.conv).attribute(x, target=0, n_steps=10).sum((2, 3)))
show("grad cam", LayerGradCam(net, net.conv).attribute(x, target=1)[0, 0])
show("guided", GuidedGradCam(net, net.conv).attribute(x, target=1)[0, 0])
show("neuron", NeuronGradient(net, net.act).attribute(x, (1, 2, 2)).sum())

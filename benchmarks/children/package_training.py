"""Train with one package for some steps, and print the seconds of each: run by benchmarks.packages.

python benchmarks/children/package_training.py gpt2 8
"""

import json
import sys
import time

import numpy as np
import torch


def gpt2():
    """A GPT-2 of transformers with 4 layers of 128, 4 sequences of 64 tokens, AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=64,
            n_embd=128,
            n_layer=4,
            n_head=4,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    tokens = torch.randint(256, (4, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return lambda: update(optimizer, lambda: model(input_ids=tokens, labels=tokens).loss)


def resnet18():
    """A ResNet-18 of timm, 4 images of 64 x 64, SGD with momentum."""
    import timm

    model = timm.create_model("resnet18", num_classes=10)
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(10, (4,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    loss = torch.nn.functional.cross_entropy
    return lambda: update(optimizer, lambda: loss(model(images), labels))


def ode():
    """A neural ODE of torchdiffeq: 2-50-2, 20 starts, 10 points, dopri5, RMSprop."""
    from torchdiffeq import odeint

    net = torch.nn.Sequential(torch.nn.Linear(2, 50), torch.nn.Tanh(), torch.nn.Linear(50, 2))
    with torch.no_grad():  # the same weights and data: the method chooses its steps by them
        for weight in net.parameters():
            weight.copy_(0.1 * draw(*weight.shape))
    start, times = draw(20, 2), torch.linspace(0.0, 1.0, 10)
    target = draw(10, 20, 2)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)

    def loss():
        return (odeint(lambda t, y: net(y**3), start, times) - target).abs().mean()

    return lambda: update(optimizer, loss)


def ppo():
    """PPO of stable-baselines3 on CartPole, 512 steps of the environment and 4 epochs each."""
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, n_epochs=4, device="cpu", seed=0)
    return lambda: model.learn(512)


def draw(*shape):
    """Return normal numbers of NumPy's generator."""
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def update(optimizer, compute):
    """Make one step of an optimizer."""
    optimizer.zero_grad()
    loss = compute()
    loss.backward()
    optimizer.step()
    return loss.item()


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    step = {"gpt2": gpt2, "resnet18": resnet18, "ode": ode, "ppo": ppo}[name]()
    for _ in range(2):
        step()
    seconds, cpu = [], []
    for _ in range(steps):
        begun, used = time.perf_counter(), time.process_time()
        step()
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    print(json.dumps({"seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main()

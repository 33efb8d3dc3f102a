"""stable-baselines3: PPO, A2C and DQN learn on an environment without chance, and are saved."""

import io

import gymnasium
import numpy as np
import torch
from common import set_weights, show
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy


class Track(gymnasium.Env):
    """A point is pushed to the middle of a line; episodes have 16 steps."""

    observation_space = gymnasium.spaces.Box(-4, 4, (2,), np.float32)

    def __init__(self, discrete=False):
        box = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2) if discrete else box

    def reset(self, *, seed=None, options=None):
        self.place, self.speed, self.count = 1.0, 0.0, 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.place, self.speed], np.float32)

    def step(self, action):
        force = float(np.asarray(action, np.float32).reshape(-1)[0])
        self.speed = 0.9 * self.speed + 0.1 * force
        self.place = float(np.clip(self.place + 0.2 * self.speed, -4, 4))
        self.count += 1
        return self.seen(), -abs(self.place), False, self.count == 16, {}


class Given(DiagGaussianDistribution):
    """Draws actions with noise from NumPy, so that PyTorch's generator does not matter."""

    def sample(self):
        noise = rng.standard_normal(tuple(self.distribution.mean.shape)).astype(np.float32)
        return self.distribution.mean + self.distribution.stddev * torch.from_numpy(noise)


class Policy(ActorCriticPolicy):
    def _build(self, lr_schedule):
        self.action_dist = Given(1)
        super()._build(lr_schedule)


rng = np.random.default_rng(0)
grid = torch.from_numpy(np.stack(np.meshgrid([-1, 0, 1], [-1, 1]), -1).reshape(-1, 2)).float()
ppo = PPO(Policy, Track(), n_steps=64, batch_size=32, n_epochs=3, device="cpu", seed=0)
a2c = A2C(Policy, Track(), n_steps=16, device="cpu", seed=0)
for name, model, steps in (("ppo", ppo, 128), ("a2c", a2c, 64)):
    set_weights(model.policy, 0.2)
    model.learn(steps)
    values, densities, entropy = model.policy.evaluate_actions(grid, torch.zeros(6, 1))
    show(f"{name} values", values)
    show(f"{name} densities", densities)
    show(f"{name} entropy", entropy)
    show(f"{name} value loss", model.logger.name_to_value["train/value_loss"])
file = io.BytesIO()
ppo.save(file)
file.seek(0)
loaded = PPO.load(file, device="cpu")
show("loaded", loaded.predict(grid.numpy(), deterministic=True)[0].reshape(-1).tolist())

dqn = DQN(
    "MlpPolicy",
    Track(discrete=True),
    learning_starts=1000,
    exploration_fraction=1e-9,
    exploration_final_eps=0.0,
    batch_size=32,
    buffer_size=40,
    device="cpu",
    seed=0,
)
set_weights(dqn.policy, 0.2)
dqn.q_net_target.load_state_dict(dqn.q_net.state_dict())
dqn.learning_starts = 0
dqn.train_freq = dqn.train_freq._replace(frequency=1000)
dqn.learn(40)
np.random.seed(0)
dqn.train(5, batch_size=32)
show("dqn", dqn.q_net(grid))

"""pyro: a posterior by enumeration and by points, densities of a trace, Hamiltonian dynamics."""

import pyro
import pyro.distributions as dist
import torch
from common import array, show
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta
from pyro.ops.integrator import velocity_verlet

data = torch.cat([array(8) - 2, array(8, seed=1) + 3])


@config_enumerate
def mixture(data):
    weights = pyro.sample("weights", dist.Dirichlet(torch.full((2,), 0.5)))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 2.0))
    with pyro.plate("components", 2):
        places = pyro.sample("places", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        kind = pyro.sample("kind", dist.Categorical(weights))
        pyro.sample("seen", dist.Normal(places[kind], scale), obs=data)


def start(site):
    given = {"weights": [0.5, 0.5], "scale": 1.0, "places": [-1.0, 1.0]}
    return torch.tensor(given[site["name"]])


pyro.clear_param_store()
guide = AutoDelta(poutine.block(mixture, expose=["weights", "places", "scale"]), init_loc_fn=start)
elbo = TraceEnum_ELBO(max_plate_nesting=1)
svi = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.1}), loss=elbo)
show("losses", [svi.step(data) for _ in range(6)])
for name, value in sorted(guide(data).items()):
    show(name, value)


def line(x, y):
    slope = pyro.param("slope", torch.tensor(0.1))
    noise = pyro.param("noise", torch.tensor(1.0), constraint=dist.constraints.positive)
    with pyro.plate("points", len(x)):
        pyro.sample("y", dist.Normal(slope * x, noise), obs=y)


x = array(12, seed=4)
svi = SVI(line, lambda *_: None, pyro.optim.ClippedAdam({"lr": 0.05}), Trace_ELBO())
show("line", [svi.step(x, 2 * x) for _ in range(5)])
show("slope", pyro.param("slope"))
trace = poutine.trace(line).get_trace(x, 2 * x)
show("density", trace.log_prob_sum())
potential = lambda z: 0.5 * (z["q"] ** 2).sum() + z["q"].cos().sum()  # noqa: E731
kinetic = lambda r: r  # noqa: E731
q, p, gradients, energy = velocity_verlet(
    {"q": array(3)}, {"q": array(3, seed=1)}, potential, kinetic, 0.1, 5
)
show("place", q["q"])
show("momentum", p["q"])
show("energy", energy)

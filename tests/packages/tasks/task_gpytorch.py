"""gpytorch: an exact Gaussian process is fitted and predicts; a sparse one by its bound."""

import warnings

import gpytorch
import torch
from common import array, show, train

torch.set_default_dtype(torch.float64)
warnings.filterwarnings("ignore", category=gpytorch.utils.warnings.GPInputWarning)
x = torch.linspace(0, 1, 20)
y = torch.sin(6 * x) + 0.1 * array(20).double()


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(likelihood)
bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
model.train()
likelihood.train()
adam = torch.optim.Adam(model.parameters(), lr=0.1)
show("losses", train(lambda: -bound(model(x), y), None, 8, adam))
model.eval()
likelihood.eval()
with torch.no_grad():
    prediction = likelihood(model(torch.linspace(-0.2, 1.2, 8)))
    show("mean", prediction.mean)
    show("variance", prediction.variance)


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self):
        points = torch.linspace(0, 1, 5)[:, None]
        distribution = gpytorch.variational.CholeskyVariationalDistribution(5)
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean, self.kernel = gpytorch.means.ZeroMean(), gpytorch.kernels.MaternKernel(nu=2.5)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


sparse, likelihood = Sparse(), gpytorch.likelihoods.GaussianLikelihood()
sparse.variational_strategy.variational_params_initialized.fill_(1)
bound = gpytorch.mlls.VariationalELBO(likelihood, sparse, num_data=20)
adam = torch.optim.Adam([*sparse.parameters(), *likelihood.parameters()], lr=0.05)
show("bound", train(lambda: -bound(sparse(x[:, None]), y), None, 6, adam))

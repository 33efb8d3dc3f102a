"""skorch: classifier and regressor as estimators of scikit-learn, in a grid search too."""

import numpy as np
import torch
from common import set_weights, show
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring

rng = np.random.default_rng(0)
x = rng.standard_normal((48, 4)).astype(np.float32)
y = (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(np.int64)


class Net(torch.nn.Module):
    def __init__(self, width=8, outputs=2):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, outputs)
        )
        set_weights(self, 0.4)

    def forward(self, x):
        return self.net(x)


options = {
    "max_epochs": 4,
    "lr": 0.1,
    "batch_size": 16,
    "verbose": 0,
    "iterator_train__shuffle": False,
}
net = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, callbacks=[EpochScoring("roc_auc", False)], **options
)
net.fit(x, y)
show("train", net.history[:, "train_loss"])
show("valid", net.history[:, "valid_loss"])
show("auc", net.history[:, "roc_auc"])
show("probabilities", net.predict_proba(x)[:4].reshape(-1).tolist())
regressor = NeuralNetRegressor(Net, module__outputs=1, train_split=None, **options)
pipeline = make_pipeline(StandardScaler(), regressor)
pipeline.fit(x, x[:, :1] * 2)
show("regressor", pipeline.predict(x)[:4].reshape(-1).tolist())
search = GridSearchCV(
    net.set_params(train_split=None, callbacks=None),
    {"lr": [0.01, 0.1], "module__width": [4, 8]},
    cv=2,
)
search.fit(x, y)
show("scores", search.cv_results_["mean_test_score"].tolist())

"""skorch: a network as an estimator of scikit-learn: fit, callbacks, a search over settings, a pickle."""

import pickle

import numpy as np
import torch
from reporting import device, report
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring, LRScheduler

where = device()
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 6)).astype(np.float32)
y = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(np.int64)


class Network(torch.nn.Module):
    """Two linear layers."""

    def __init__(self, width=8, out=2):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, out))

    def forward(self, x):
        """Return scores."""
        return self.layers(x)


common = {"max_epochs": 3, "lr": 0.1, "device": str(where), "verbose": 0, "train_split": None}
torch.manual_seed(0)
net = NeuralNetClassifier(
    Network,
    criterion=torch.nn.CrossEntropyLoss,
    callbacks=[EpochScoring("accuracy", on_train=True), LRScheduler("StepLR", step_size=1, gamma=0.5)],
    **common,
)
net.fit(x, y)
numbers = {f"loss {i}": loss for i, loss in enumerate(net.history[:, "train_loss"])}
numbers |= {"accuracy": net.score(x, y), "probabilities": net.predict_proba(x).std()}
again = pickle.loads(pickle.dumps(net))
numbers["pickled"] = again.predict_proba(x).std()
torch.manual_seed(1)
search = GridSearchCV(
    NeuralNetClassifier(Network, criterion=torch.nn.CrossEntropyLoss, **common),
    {"lr": [0.01, 0.5], "module__width": [4]},
    cv=3,
    scoring="accuracy",
)
search.fit(x, y)
numbers |= {"best rate": search.best_params_["lr"], "best": search.best_score_}
torch.manual_seed(2)
regressor = make_pipeline(StandardScaler(), NeuralNetRegressor(Network, module__out=1, **common))
regressor.fit(x, x[:, :1])
numbers["regression"] = regressor.score(x, x[:, :1])
report(numbers)

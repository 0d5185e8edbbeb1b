"""pykeen: TransE and RotatE are trained on a small graph of knowledge, and ranked."""

import numpy as np
import torch
from pykeen.losses import MarginRankingLoss
from pykeen.models import RotatE, TransE
from pykeen.triples import TriplesFactory
from reporting import check_on, device, report

where = device()
rng = np.random.default_rng(0)
triples = {
    (int(h), int(r), int(t))
    for h, r, t in zip(rng.integers(12, size=60), rng.integers(3, size=60), rng.integers(12, size=60))
}
labelled = np.array([[f"e{h:02}", f"r{r}", f"e{t:02}"] for h, r, t in sorted(triples)])
factory = TriplesFactory.from_labeled_triples(labelled)
positive = factory.mapped_triples.to(where)
negative = positive.roll(1, 0).clone()
negative[:, :2] = positive[:, :2]
numbers = {"triples": len(positive)}
for name, make in {"transe": TransE, "rotate": RotatE}.items():
    model = make(triples_factory=factory, embedding_dim=8, random_seed=1, loss=MarginRankingLoss()).to(where)
    check_on(model, where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        difference = model.score_hrt(negative) - model.score_hrt(positive)
        loss = torch.nn.functional.softplus(difference).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.post_parameter_update()
        numbers[f"{name} loss {step}"] = loss
    with torch.no_grad():
        numbers[f"{name} tails"] = model.score_t(positive[:, :2]).sum()
    with torch.no_grad():
        # The two methods round the score of the same triple differently.
        true = model.score_hrt(positive) - 1e-4
        numbers[f"{name} rank"] = (model.score_t(positive[:, :2]) >= true).float().sum(1).mean()
report(numbers)

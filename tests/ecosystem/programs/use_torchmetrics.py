"""torchmetrics: a collection of classification metrics over batches, regression and image metrics."""

import torch
from reporting import device, report
from torchmetrics import MeanSquaredError, MetricCollection, PearsonCorrCoef, R2Score
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.functional import pairwise_cosine_similarity
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure

where = device()
torch.manual_seed(0)
metrics = MetricCollection(
    {
        "accuracy": MulticlassAccuracy(num_classes=4),
        "f1": MulticlassF1Score(num_classes=4, average="macro"),
        "auroc": MulticlassAUROC(num_classes=4),
    }
).to(where)
confusion = MulticlassConfusionMatrix(num_classes=4).to(where)
regression = MetricCollection([MeanSquaredError(), R2Score(), PearsonCorrCoef()]).to(where)
for _ in range(3):
    probabilities = torch.randn(32, 4).softmax(-1).to(where)
    labels = torch.randint(4, (32,)).to(where)
    metrics.update(probabilities, labels)
    confusion.update(probabilities, labels)
    regression.update(probabilities[:, 0], labels / 4)
numbers = {**metrics.compute(), **regression.compute()}
numbers["confusion"] = (confusion.compute() * torch.arange(16, device=where).view(4, 4)).sum()

images = torch.rand(2, 3, 24, 24).to(where)
noisy = (images + 0.1 * torch.randn(2, 3, 24, 24).to(where)).clamp(0, 1)
numbers["psnr"] = PeakSignalNoiseRatio(data_range=1.0).to(where)(noisy, images)
numbers["ssim"] = StructuralSimilarityIndexMeasure(data_range=1.0).to(where)(noisy, images)
numbers["cosine"] = pairwise_cosine_similarity(probabilities).sum()
report(numbers, less_exact={"ssim": (2e-4, "SSIM subtracts nearly equal variances, so a last bit of the window grows")})

"""torchmetrics: metrics of classes, of numbers, of images, of text and a collection of them."""

import torch
import torchmetrics as tm
from common import array, integers, show
from torchmetrics.functional import pairwise_cosine_similarity
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.text import BLEUScore, Perplexity

logits, labels = array(64, 5), integers(5, 64)
collection = tm.MetricCollection(
    {
        "accuracy": tm.Accuracy(task="multiclass", num_classes=5),
        "f1": tm.F1Score(task="multiclass", num_classes=5, average="macro"),
        "auroc": tm.AUROC(task="multiclass", num_classes=5),
        "calibration": tm.CalibrationError(task="multiclass", num_classes=5),
        "kappa": tm.CohenKappa(task="multiclass", num_classes=5),
        "confusion": tm.ConfusionMatrix(task="multiclass", num_classes=5),
        "precision": tm.AveragePrecision(task="multiclass", num_classes=5, thresholds=9),
    }
)
for part in range(4):
    collection.update(logits[part::4], labels[part::4])
for name, value in sorted(collection.compute().items()):
    show(name, value)
x, y = array(40), array(40, seed=1) * 0.3 + array(40)
for metric in (
    tm.MeanSquaredError(),
    tm.PearsonCorrCoef(),
    tm.SpearmanCorrCoef(),
    tm.R2Score(),
    tm.KendallRankCorrCoef(),
    tm.ExplainedVariance(),
    tm.MeanMetric(),
):
    arguments = (x,) if isinstance(metric, tm.MeanMetric) else (x, y)
    metric.update(*[a[:20] for a in arguments])
    show(f"{type(metric).__name__} of one", metric(*[a[20:] for a in arguments]))
    show(type(metric).__name__, metric.compute())
images = array(2, 3, 24, 24).sigmoid()
other = (images + 0.1 * array(2, 3, 24, 24, seed=1)).clamp(0, 1).requires_grad_()
similarity = StructuralSimilarityIndexMeasure(data_range=1.0)(other, images)
show("ssim", similarity)
show("ssim gradient", torch.autograd.grad(similarity, other)[0].abs().sum((0, 2, 3)))
show("psnr", PeakSignalNoiseRatio(data_range=1.0)(other, images))
show("perplexity", Perplexity()(array(2, 6, 9), integers(9, 2, 6)))
show("bleu", BLEUScore(n_gram=2)(["the cat is on the mat"], [["a cat is on the mat"]]))
show("cosine", pairwise_cosine_similarity(logits[:4]))

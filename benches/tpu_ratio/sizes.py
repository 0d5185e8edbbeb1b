"""Sizes of the models on both sides."""

from types import SimpleNamespace as Size

GPT2 = Size(layers=12, heads=12, width=768, vocabulary=50257, block=1024, batch=8)
SMALL_GPT = Size(layers=2, heads=4, width=128, vocabulary=512, block=128, batch=4)
RESNET50 = Size(batch=64)
DIGITS = Size(batch=64)
ATTENTION = Size(batch=8, block=1024, width=768)
DROPOUT = Size(rows=1024, width=1024, p=0.1)
# Tables of embeddings of a recommender, whose rows are summed over bags.
TABLES = Size(count=4, rows=100000, width=64, batch=1024, bag=4)
DEPTHWISE = Size(batch=16, channels=144, size=28)
REMAINDER = Size(rows=1024, columns=1024, by=7)
LLAMA = Size(
    layers=4, width=2048, heads=32, kv_heads=8, head_dim=64, hidden=8192, vocabulary=32000, block=2048, batch=8
)

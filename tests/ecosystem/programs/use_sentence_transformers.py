"""sentence-transformers: a tiny BERT with a word list of its own encodes sentences, and trains on pairs of them."""

import pathlib
import tempfile

import torch
from reporting import check_on, device, report
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import BertConfig, BertModel, BertTokenizer

where = device()
sentences = ["the cat sits outside", "a man is playing guitar", "the new movie is awesome", "a dog plays in the garden"]
others = ["the dog sits outside", "a woman watches tv", "the new movie is so great", "the cat plays in the garden"]
words = sorted({word for sentence in sentences + others for word in sentence.split()})
torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    pathlib.Path(folder, "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(pathlib.Path(folder, "vocab.txt"))).save_pretrained(folder)
    BertModel(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=32,
        )
    ).save_pretrained(folder)
    transformer = modules.Transformer(folder, max_seq_length=16)
    pooling = modules.Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    model = SentenceTransformer(modules=[transformer, pooling, modules.Normalize()], device=str(where))
check_on(model, where)

numbers = {}
before = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
numbers["similarity"] = util.cos_sim(before, before).sum()
loss_of = MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
pairs = [util.batch_to_device(model.preprocess(texts), where) for texts in (sentences, others)]
for step in range(3):
    loss = loss_of([dict(pair) for pair in pairs], None)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
model.eval()
with tempfile.TemporaryDirectory() as folder:
    model.save(folder)
    model = SentenceTransformer(folder, device=str(where))
found = util.semantic_search(
    model.encode(sentences[:1], convert_to_tensor=True), model.encode(others, convert_to_tensor=True), top_k=2
)
numbers["found"], numbers["score"] = found[0][0]["corpus_id"], found[0][0]["score"]
report(numbers)

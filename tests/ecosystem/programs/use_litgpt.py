"""litgpt: a small GPT is trained, with LoRA too, and generates with a cache."""

import torch
from litgpt import GPT, Config
from litgpt.generate.base import generate
from litgpt.lora import GPT as LoRAGPT, Config as LoRAConfig, mark_only_lora_as_trainable
from litgpt.utils import chunked_cross_entropy
from reporting import check_on, device, report

where = device()
sizes = {
    "block_size": 32,
    "vocab_size": 64,
    "padded_vocab_size": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 32,
    "n_query_groups": 2,
    "rotary_percentage": 1.0,
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
    "intermediate_size": 64,
    "bias": False,
    "parallel_residual": False,
}
torch.manual_seed(0)
model = GPT(Config(**sizes)).to(where)
check_on(model, where)
tokens = torch.randint(64, (4, 17)).to(where)
numbers = {}


def train(name, model):
    """Train for three steps and keep the losses."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for step in range(3):
        loss = chunked_cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], chunk_size=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers[f"{name} loss {step}"] = loss


train("gpt", model)
model.eval()
with torch.no_grad():
    model.set_kv_cache(batch_size=1, device=where)
    found = generate(model, tokens[0, :5], max_returned_tokens=16, temperature=0.0)
numbers |= {"tokens": found.sum(), "length": len(found)}
torch.manual_seed(1)
model = LoRAGPT(LoRAConfig(**sizes, lora_r=4, lora_alpha=8, lora_dropout=0.0, lora_query=True, lora_value=True))
mark_only_lora_as_trainable(model)
train("lora", model.to(where))
report(numbers)

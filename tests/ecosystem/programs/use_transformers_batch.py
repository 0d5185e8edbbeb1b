"""transformers: `generate_batch`, which serves requests of unequal length from one paged cache."""

import torch
from reporting import check_on, device, report
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

where = device()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    pad_token_id=0,
    eos_token_id=95,
)
model = LlamaForCausalLM(config)
model.config._attn_implementation = "sdpa"
model = model.to(where).eval()
check_on(model, where)
requests = [torch.randint(1, 90, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (3, 9, 17, 6)]
settings = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=95, pad_token_id=0)
# Without sizes, the cache takes 90 % of the memory.
sizes = ContinuousBatchingConfig(page_size=16, num_blocks=32, max_batch_tokens=64)
found = model.generate_batch(inputs=requests, generation_config=settings, continuous_batching_config=sizes)
answers = [output.generated_tokens for output in found.values()]
numbers = {"requests": len(answers), "lengths": sum(map(len, answers)), "tokens": sum(map(sum, answers))}
alone = []
for request in requests:
    given = torch.tensor([request], device=where)
    alone.append(model.generate(given, max_new_tokens=6, do_sample=False)[0, len(request) :].tolist())
assert sorted(alone) == sorted(map(list, answers)), (alone, answers)
numbers["alone"] = sum(map(sum, alone))
report(numbers)

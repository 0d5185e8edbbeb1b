"""x-transformers: a decoder with rotary positions trains on random tokens and generates greedily."""

import torch
from reporting import check_on, device, report
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

where = device()
torch.manual_seed(0)
decoder = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, attn_kv_heads=2, ff_glu=True)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=decoder)).to(where)
check_on(model, where)
tokens = torch.randint(64, (4, 17)).to(where)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
numbers = {}
for step in range(4):
    loss = model(tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
model.eval()
for position, token in enumerate(model.generate(tokens[:1, :4], 5, temperature=0.0)[0].tolist()):
    numbers[f"token {position}"] = token

torch.manual_seed(1)
vision = ViTransformerWrapper(
    image_size=16, patch_size=4, num_classes=5, attn_layers=Encoder(dim=32, depth=1, heads=2, attn_dim_head=16)
).to(where)
loss = torch.nn.functional.cross_entropy(vision(torch.randn(2, 3, 16, 16).to(where)), torch.tensor([1, 2]).to(where))
loss.backward()
numbers["vision loss"] = loss
numbers["vision gradient"] = vision.patch_to_embedding[1].weight.grad.norm()
report(numbers)

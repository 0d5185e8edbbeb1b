"""peft: LoRA on a tiny GPT-2, saved, loaded and merged; DoRA and IA3 on a small network of linear layers."""

import tempfile

import torch
from peft import IA3Config, LoraConfig, PeftModel, TaskType, get_peft_model
from reporting import check_on, device, report
from transformers import GPT2Config, GPT2LMHeadModel

where = device()
config = GPT2Config(
    vocab_size=64,
    n_positions=32,
    n_embd=32,
    n_layer=2,
    n_head=4,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    bos_token_id=1,
    eos_token_id=2,
)
torch.manual_seed(0)
base = GPT2LMHeadModel(config)
weights = {name: tensor.clone() for name, tensor in base.state_dict().items()}
tokens = torch.randint(64, (4, 16)).to(where)
lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["c_attn"])
model = get_peft_model(base, lora).to(where)
check_on(model, where)
trainable, total = model.get_nb_trainable_parameters()
numbers = {"trainable": trainable, "total": total}
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(3):
    loss = model(input_ids=tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"lora loss {step}"] = loss

model.eval()
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    model.save_pretrained(folder)
    fresh = GPT2LMHeadModel(config)
    fresh.load_state_dict(weights)
    loaded = PeftModel.from_pretrained(fresh, folder).to(where).eval()
    numbers["loaded"] = loaded(input_ids=tokens, labels=tokens).loss
    numbers["merged"] = loaded.merge_and_unload()(input_ids=tokens, labels=tokens).loss

for name, adapter in {
    "dora": LoraConfig(r=2, target_modules=["0", "2"], use_dora=True),
    "ia3": IA3Config(target_modules=["0", "2"], feedforward_modules=["2"]),
}.items():
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x, y = torch.randn(16, 8).to(where), torch.randn(16, 4).to(where)
    network = get_peft_model(network, adapter).to(where)
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        loss = (network(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    numbers[name] = loss
report(numbers)

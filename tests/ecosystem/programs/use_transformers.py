"""transformers: a Llama trains, generates, is saved and loaded; a BERT classifies; the `Trainer` trains, evaluates and
resumes.
"""

import tempfile

import torch
from reporting import check_on, device, report
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    get_linear_schedule_with_warmup,
)

where = device()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
model = LlamaForCausalLM(config).to(where)
check_on(model, where)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = get_linear_schedule_with_warmup(optimizer, 1, 10)
tokens = torch.randint(2, 64, (4, 16)).to(where)
numbers = {}
for step in range(4):
    loss = model(input_ids=tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    numbers[f"llama loss {step}"], numbers[f"llama norm {step}"] = loss, norm

model.eval()
prompt = tokens[:2, :4]
generated = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
for position, token in enumerate(generated[0, 4:].tolist()):
    numbers[f"token {position}"] = token
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(folder).to(where).eval()
    with torch.no_grad():
        numbers["loaded"] = loaded(input_ids=tokens, labels=tokens).loss
        numbers["difference"] = (loaded(tokens).logits - model(tokens).logits).abs().max()

torch.manual_seed(1)
bert = BertForSequenceClassification(
    BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=3,
    )
).to(where)
mask = torch.ones_like(tokens)
mask[:, 12:] = 0
output = bert(input_ids=tokens, attention_mask=mask, labels=torch.tensor([0, 1, 2, 0]).to(where))
output.loss.backward()
numbers["bert loss"] = output.loss
numbers["bert gradient"] = bert.bert.embeddings.word_embeddings.weight.grad.norm()

# The Trainer is not told the device, except that it is to use cpu.
torch.manual_seed(2)
examples = [{"input_ids": row, "labels": row} for row in torch.randint(2, 64, (24, 16))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=where.type == "cpu",
        max_steps=4,
        save_steps=2,
        logging_steps=1,
        learning_rate=1e-2,
        per_device_train_batch_size=8,
        max_grad_norm=1.0,
        report_to=[],
        disable_tqdm=True,
        seed=3,
    )
    model = LlamaForCausalLM(config)
    begin = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = Trainer(model=model, args=arguments, train_dataset=examples, eval_dataset=examples[:8])
    trainer.train()
    check_on(trainer.model, where)
    assert trainer.args.device.type == trainer.accelerator.device.type == where.type
    numbers |= {
        f"trainer loss {entry['step']}": entry["loss"] for entry in trainer.state.log_history if "loss" in entry
    }
    numbers["trainer evaluated"] = trainer.evaluate()["eval_loss"]
    model.load_state_dict(begin)
    trainer = Trainer(model=model, args=arguments, train_dataset=examples, eval_dataset=examples[:8])
    trainer.train(resume_from_checkpoint=f"{folder}/checkpoint-2")
    numbers["trainer resumed"] = trainer.evaluate()["eval_loss"]
report(numbers)

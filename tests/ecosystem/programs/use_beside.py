"""torchaudio, torchao, bitsandbytes and deepspeed beside the libraries that look for them: a Trainer with LoRA runs."""

import importlib.metadata
import tempfile

import accelerate
import bitsandbytes
import deepspeed
import lightning
import sentence_transformers
import torch
import torchao.quantization
import torchaudio
import trl
from peft import LoraConfig, get_peft_model
from reporting import check_on, device, report
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

where = device()
for module in (accelerate, bitsandbytes, deepspeed, lightning, sentence_transformers, torchao, torchaudio, trl):
    assert importlib.metadata.version(module.__name__.replace("_", "-")), module
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = get_peft_model(
    LlamaForCausalLM(config),
    LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
tokens = torch.randint(64, (16, 12)).tolist()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        max_steps=4,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=where.type == "cpu",
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
    trainer.train()
check_on(trainer.model, where)
numbers = {
    f"loss {i}": line["loss"] for i, line in enumerate(line for line in trainer.state.log_history if "loss" in line)
}
wave = torch.sin(torch.arange(2000) / 9).to(where)
numbers["mel"] = torchaudio.transforms.MelSpectrogram(8000, n_fft=128, n_mels=16).to(where)(wave).log1p().sum()
report(numbers)

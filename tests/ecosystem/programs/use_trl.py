"""trl: a tiny Llama is trained on texts (SFT), with LoRA, and on preferences (DPO)."""

import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from reporting import check_on, device, report
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

where = device()
words = ["<pad>", "<eos>", "<unk>", *"a tensor is an array of numbers and this line has more words".split()]
vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
text = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
text.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=text, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model():
    """Return a model with the same weights at each call."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


common = {
    "per_device_train_batch_size": 2,
    "max_steps": 3,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "report_to": [],
    "save_strategy": "no",
    "seed": 0,
    "use_cpu": where.type == "cpu",
    "disable_tqdm": True,
    "bf16": False,
    "gradient_checkpointing": False,
}
numbers = {}


def keep(name, trainer):
    """Train, check the device, and keep the losses."""
    trainer.train()
    check_on(trainer.model, where)
    for i, line in enumerate(line for line in trainer.state.log_history if "loss" in line):
        numbers[f"{name} loss {i}"] = line["loss"]


lines = ["a tensor is an array of numbers", "this line has more words", "numbers and words", "an array is a tensor"]
with tempfile.TemporaryDirectory() as folder:
    data = Dataset.from_dict({"text": lines * 2})
    arguments = SFTConfig(output_dir=folder, max_length=16, **common)
    keep("sft", SFTTrainer(model(), arguments, train_dataset=data, processing_class=tokenizer))
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
    keep("lora", SFTTrainer(model(), arguments, train_dataset=data, processing_class=tokenizer, peft_config=lora))
    pairs = Dataset.from_dict(
        {"prompt": ["a tensor is"] * 4, "chosen": [" an array"] * 4, "rejected": [" more words", " this"] * 2}
    )
    arguments = DPOConfig(output_dir=folder, max_length=16, **common)
    trainer = DPOTrainer(model(), model(), args=arguments, train_dataset=pairs, processing_class=tokenizer)
    keep("dpo", trainer)
report(numbers)

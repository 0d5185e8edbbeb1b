"""transformers on two ranks: the `Trainer` trains a Llama with `DistributedDataParallel`, evaluates, saves and resumes.
Then it trains with ``fsdp=True``, which means `DistributedDataParallel` on cpu to accelerate. The numbers are the same.

A launcher starts the ranks. The `Trainer` finds them by itself.
"""

import pathlib
import tempfile

import torch
import torch.distributed as dist
from reporting import check_on, device, report
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

where = device()
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
torch.manual_seed(2)
examples = [{"input_ids": row, "labels": row} for row in torch.randint(2, 64, (36, 16))]
numbers = {}


def arguments(folder, **options):
    """Return the arguments of a training of four steps, two of which are saved."""
    return TrainingArguments(
        output_dir=folder,
        use_cpu=where.type == "cpu",
        max_steps=4,
        save_steps=2,
        logging_steps=1,
        learning_rate=1e-2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_grad_norm=1.0,
        report_to=[],
        disable_tqdm=True,
        seed=3,
        **options,
    )


def model():
    """Return the model with its first weights, the same on all ranks."""
    torch.manual_seed(4)
    return LlamaForCausalLM(config)


with tempfile.TemporaryDirectory() as folder:
    # The ranks save to one folder.
    trainer = Trainer(model=model(), args=arguments(folder), train_dataset=examples, eval_dataset=examples[:9])
    folders = [trainer.args.output_dir]
    dist.broadcast_object_list(folders, 0)
    shared = pathlib.Path(folders[0])
    trainer = Trainer(model=model(), args=arguments(shared), train_dataset=examples, eval_dataset=examples[:9])
    trainer.train()
    assert dist.get_world_size() == 2 == trainer.accelerator.num_processes
    check_on(trainer.model, where)
    assert trainer.args.device.type == trainer.accelerator.device.type == where.type
    for entry in trainer.state.log_history:
        if "loss" in entry:
            numbers[f"loss {entry['step']}"], numbers[f"norm {entry['step']}"] = entry["loss"], entry["grad_norm"]
    # Nine examples on two ranks: one of them is counted once.
    evaluated = trainer.predict(examples[:9])
    numbers["predictions"] = len(evaluated.predictions)
    numbers["evaluated"] = evaluated.metrics["test_loss"]
    trainer = Trainer(model=model(), args=arguments(shared), train_dataset=examples, eval_dataset=examples[:9])
    trainer.train(resume_from_checkpoint=str(shared / "checkpoint-2"))
    numbers["resumed"] = trainer.evaluate()["eval_loss"]
    dist.barrier()

    layers = {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
    options = arguments(shared / "fsdp", fsdp=True, fsdp_config=layers)
    options.save_strategy = "no"
    trainer = Trainer(model=model(), args=options, train_dataset=examples, eval_dataset=examples[:9])
    trainer.train()
    kind = "DistributedDataParallel" if where.type == "cpu" else "FSDPLlamaForCausalLM"
    assert type(trainer.model_wrapped).__name__ == kind
    numbers["fsdp"] = trainer.evaluate()["eval_loss"]
    dist.barrier()
if dist.get_rank() == 0:
    report(numbers)
dist.destroy_process_group()

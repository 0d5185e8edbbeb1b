"""transformers: `transformers serve` answers a chat, a stream, and four clients at the same time."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import torch
from reporting import device, report
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

where = device()
words = ["<pad>", "<eos>", "<unk>", *"user : assistant a tensor is an array of numbers and this line has more".split()]
vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
text = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
text.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=text, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}assistant :"
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )
)  # fmt: skip


def free_port():
    """Return a port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def lines(path, body=None):
    """Return the lines of an answer of the server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return [line for line in answer.read().decode().splitlines() if line]


def chat(content, stream=False):
    """Return the text of an answer."""
    body = {
        "model": folder, "messages": [{"role": "user", "content": content}], "max_tokens": 6, "temperature": 0.0,
        "stream": stream,
    }  # fmt: skip
    found = lines("/v1/chat/completions", body)
    if not stream:
        return json.loads("".join(found))["choices"][0]["message"]["content"]
    parts = [json.loads(line[6:]) for line in found if line.startswith("data: {")]
    return "".join(part["choices"][0]["delta"].get("content") or "" for part in parts if part["choices"])


def is_up():
    """Return whether the server accepts connections."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def value(answer):
    """Return a number for a text."""
    return sum((i + 1) * vocabulary.get(word, 97) for i, word in enumerate(answer.split()))


with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    log = pathlib.Path(folder, "log")
    with log.open("w") as file:
        server = subprocess.Popen(
            [*command, "--device", str(where)], stdout=file, stderr=file, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    deadline = time.monotonic() + 300
    while not is_up():
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    numbers = {"models": len(lines("/v1/models")) and 1, "chat": value(chat("a tensor is"))}
    numbers["stream"] = value(chat("numbers and", stream=True))
    asked = ["a tensor", "an array of numbers", "this line", "more"]
    answers = {}
    clients = [threading.Thread(target=lambda c=content: answers.update({c: chat(c)})) for content in asked]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for i, content in enumerate(asked):
        numbers[f"client {i}"] = value(answers[content])
    server.send_signal(signal.SIGINT)
    server.wait(60)
report(numbers)

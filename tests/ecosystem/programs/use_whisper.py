"""openai-whisper: the spectrogram of a tone, a small model with random weights, greedy decoding, training steps."""

import torch
import whisper
from reporting import check_on, device, report
from whisper.decoding import DecodingOptions, decode
from whisper.model import ModelDimensions, Whisper

where = device()
torch.manual_seed(0)
sizes = ModelDimensions(
    n_mels=80,
    n_audio_ctx=1500,
    n_audio_state=32,
    n_audio_head=2,
    n_audio_layer=1,
    n_vocab=51864,
    n_text_ctx=32,
    n_text_state=32,
    n_text_head=2,
    n_text_layer=2,
)
model = Whisper(sizes)
# The library leaves this parameter without a value.
torch.nn.init.normal_(model.decoder.positional_embedding, std=0.02)
numbers = {"heads": model.alignment_heads.indices().sum(), "head count": model.alignment_heads.values().sum()}
model = model.to(where)
check_on(model, where)
seconds = torch.arange(16000 * 2) / 16000
audio = 0.3 * torch.sin(6.283185 * 440 * seconds) + 0.1 * torch.sin(6.283185 * 1000 * seconds * seconds)
mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(audio), n_mels=80).to(where)
numbers["mel"] = mel.square().mean()
with torch.no_grad():
    numbers["features"] = model.embed_audio(mel.unsqueeze(0)).square().mean()
options = DecodingOptions(language="en", without_timestamps=True, fp16=False, sample_len=5)
found = decode(model, mel, options)
numbers |= {"log probability": found.avg_logprob, "tokens": sum(found.tokens)}
tokens = torch.tensor([[50257, 50362, 11, 22, 33, 44]], device=where)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(2):
    logits = model(mel.unsqueeze(0), tokens[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
report(numbers)

"""demucs: a small HDemucs and a Demucs separate and train; the library's STFT and its application in chunks."""

import torch
from demucs.apply import apply_model
from demucs.demucs import Demucs
from demucs.hdemucs import HDemucs
from demucs.spec import ispectro, spectro
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
mixture = 0.1 * torch.randn(1, 2, 16384).to(where)
spectrum = spectro(mixture, 512)
numbers = {
    "spectrum": spectrum.abs().square().sum(),
    "inverse": (ispectro(spectrum, length=16384) - mixture).abs().max() + 1,
}
torch.manual_seed(1)
hybrid = HDemucs(sources=["a", "b"], channels=4, depth=6, nfft=4096, segment=1, samplerate=8000)
hybrid = hybrid.to(where)
check_on(hybrid, where)
optimizer = torch.optim.SGD(hybrid.parameters(), lr=1e-3)
for step in range(2):
    loss = torch.nn.functional.l1_loss(hybrid(mixture), torch.stack([mixture, -mixture], 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"hybrid loss {step}"] = loss
torch.manual_seed(2)
plain = Demucs(["a", "b"], channels=4, depth=3, lstm_layers=1, segment=1, samplerate=8000).to(where).eval()
check_on(plain, where)
with torch.no_grad():
    numbers["plain"] = plain(mixture).square().mean()
    numbers["chunks"] = (
        apply_model(plain, mixture, shifts=0, split=True, segment=0.25, overlap=0.25, device=where).square().mean()
    )
report(numbers)

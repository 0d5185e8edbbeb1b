"""torchaudio: spectrograms, MFCC, resampling, filters, Griffin-Lim; a wav2vec2 and a Conformer are trained."""

import torch
import torchaudio
from reporting import check_on, device, report
from torchaudio import functional as AF, transforms as T

where = device()
torch.manual_seed(0)
seconds = torch.arange(8000) / 8000
wave = (0.5 * torch.sin(6.283185 * 440 * seconds) + 0.05 * torch.randn(2, 8000)).to(where)
numbers = {}
mel = T.MelSpectrogram(8000, n_fft=256, n_mels=32).to(where)
numbers["mel"] = mel(wave).log1p().sum()
numbers["mfcc"] = T.MFCC(8000, n_mfcc=13, melkwargs={"n_fft": 256, "n_mels": 32}).to(where)(wave).abs().sum()
numbers["resampled"] = T.Resample(8000, 6000).to(where)(wave).square().sum()
numbers["lowpass"] = AF.lowpass_biquad(wave[:, :800], 8000, 1000.0).square().sum()
numbers["equalizer"] = AF.equalizer_biquad(wave[:, :800], 8000, 500.0, 3.0).square().sum()
numbers["decibels"] = AF.amplitude_to_DB(mel(wave), 10.0, 1e-10, 0.0).sum()
numbers["deltas"] = AF.compute_deltas(mel(wave)).abs().sum()
spectrum = T.Spectrogram(n_fft=256, power=2.0).to(where)(wave)
numbers["griffin-lim"] = (
    T.GriffinLim(n_fft=256, n_iter=4, power=2.0, rand_init=False).to(where)(spectrum).square().sum()
)
masked = T.TimeMasking(10)
torch.manual_seed(1)
numbers["cpu.masked"] = masked(mel(wave).cpu()).sum()

torch.manual_seed(2)
encoder = torchaudio.models.wav2vec2_model(
    extractor_mode="group_norm",
    extractor_conv_layer_config=[(16, 10, 5), (16, 3, 2), (16, 3, 2)],
    extractor_conv_bias=False,
    encoder_embed_dim=32,
    encoder_projection_dropout=0.0,
    encoder_pos_conv_kernel=16,
    encoder_pos_conv_groups=4,
    encoder_num_layers=2,
    encoder_num_heads=4,
    encoder_attention_dropout=0.0,
    encoder_ff_interm_features=64,
    encoder_ff_interm_dropout=0.0,
    encoder_dropout=0.0,
    encoder_layer_norm_first=False,
    encoder_layer_drop=0.0,
    aux_num_out=8,
).to(where)
check_on(encoder, where)
optimizer = torch.optim.SGD(encoder.parameters(), lr=1e-5)
target = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
for step in range(2):
    logits, _ = encoder(wave)
    frames = torch.full((2,), logits.shape[1])
    loss = torch.nn.functional.ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), target.to(where), frames, torch.full((2,), 4)
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"wav2vec2 loss {step}"] = loss
torch.manual_seed(3)
conformer = torchaudio.models.Conformer(
    input_dim=32, num_heads=4, ffn_dim=48, num_layers=2, depthwise_conv_kernel_size=5
).to(where)
features, lengths = conformer.eval()(mel(wave).transpose(1, 2), torch.tensor([63, 50], device=where))
numbers |= {"conformer": features.square().mean(), "lengths": lengths.sum()}
report(numbers, {"griffin-lim": (1e-3, "phases of nearly empty bins")})

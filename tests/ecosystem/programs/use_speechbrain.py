"""speechbrain: filter banks, ECAPA-TDNN, and a CRDNN that is trained with CTC."""

import torch
from reporting import check_on, device, report
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models.CRDNN import CRDNN
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
from speechbrain.nnet.linear import Linear
from speechbrain.nnet.losses import ctc_loss
from speechbrain.processing.features import InputNormalization

where = device()
torch.manual_seed(0)
wave = 0.1 * torch.randn(2, 8000).to(where)
bank = Fbank(n_mels=24).to(where)
features = bank(wave)
numbers = {"filter bank": features.abs().sum()}
lengths = torch.tensor([1.0, 0.75], device=where)
features = InputNormalization(norm_type="sentence").to(where)(features, lengths)
numbers["normalized"] = features.abs().sum()
torch.manual_seed(1)
speaker = ECAPA_TDNN(24, lin_neurons=16, channels=[32, 32, 32, 32, 96], attention_channels=16).to(where)
check_on(speaker, where)
speaker.eval()
numbers["speaker"] = speaker(features, lengths).square().sum()
torch.manual_seed(2)
recognizer = CRDNN(
    input_shape=[None, None, 24],
    cnn_channels=(4, 8),
    rnn_layers=1,
    rnn_neurons=16,
    dnn_neurons=16,
    dropout=0.0,
    time_pooling=True,
)
head = Linear(n_neurons=10, input_size=16)
model = torch.nn.ModuleList([recognizer, head]).to(where)
check_on(model, where)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tokens = torch.tensor([[1, 2, 3], [4, 5, 6]], device=where)
for step in range(3):
    scores = head(recognizer(features)).log_softmax(-1)
    loss = ctc_loss(scores, tokens, lengths, torch.ones(2, device=where), blank_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
report(numbers)

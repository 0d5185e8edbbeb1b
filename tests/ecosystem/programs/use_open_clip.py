"""open_clip: a small CLIP trains on pairs of images and texts, and rates images without a label of their own."""

import open_clip
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from PIL import Image
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
tokenizer = open_clip.SimpleTokenizer(context_length=16)
texts = tokenizer(["a red square", "a green circle", "two blue lines", "a picture of noise"]).to(where)
prepare = open_clip.image_transform(32, is_train=False)
images = torch.stack([prepare(Image.new("RGB", (40, 48), color)) for color in ("red", "green", "blue", "gray")])
images = (images + 0.1 * torch.randn(4, 3, 32, 32)).to(where)
model = CLIP(
    embed_dim=16,
    vision_cfg=CLIPVisionCfg(layers=2, width=32, head_width=16, patch_size=8, image_size=32),
    text_cfg=CLIPTextCfg(context_length=16, vocab_size=tokenizer.vocab_size, width=32, heads=2, layers=2),
).to(where)
check_on(model, where)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
loss_of = ClipLoss()
numbers = {"tokens": texts.sum()}
for step in range(4):
    loss = loss_of(*model(images, texts))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
model.eval()
with torch.no_grad():
    of_images, of_texts = model.encode_image(images, normalize=True), model.encode_text(texts, normalize=True)
    chances = (model.logit_scale.exp() * of_images @ of_texts.T).softmax(-1)
numbers["chances"] = (chances * torch.arange(16, device=where).view(4, 4)).sum()
numbers["images"] = of_images.sum()
report(numbers)

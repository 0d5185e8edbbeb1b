"""ultralytics: a small YOLOv8 is trained on drawn boxes with the library's loader and loss, and predicts with NMS."""

import torch
from reporting import check_on, device, report
from ultralytics.cfg import get_cfg
from ultralytics.data.build import InfiniteDataLoader
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils.loss import v8DetectionLoss
from ultralytics.utils.nms import non_max_suppression

where = device()
torch.manual_seed(0)
model = DetectionModel("yolov8n.yaml", ch=3, nc=2, verbose=False)
model.args = get_cfg()
model = model.to(where).train()
check_on(model, where)


class Boxes(torch.utils.data.Dataset):
    """Images with one bright rectangle, and its place."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        image = torch.full((3, 64, 64), 0.1)
        image[i % 3, 8 + 4 * i : 40 + 4 * i, 10:50] = 0.9
        return image, torch.tensor([i % 2, 30 / 64, (24 + 4 * i) / 64, 40 / 64, 32 / 64])


def collate(samples):
    """Return a batch in the form that the loss takes."""
    images, boxes = (torch.stack(part) for part in zip(*samples))
    return {
        "img": images.to(where),
        "batch_idx": torch.arange(len(samples), device=where),
        "cls": boxes[:, :1].to(where),
        "bboxes": boxes[:, 1:].to(where),
    }


loader = InfiniteDataLoader(
    Boxes(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1), collate_fn=collate
)
criterion = v8DetectionLoss(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
numbers = {}
for step, batch in zip(range(3), loader):
    loss, parts = criterion(model(batch["img"]), batch)
    loss = loss.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
    if step == 0:
        numbers |= {name: part for name, part in parts.items()}
model.eval()
with torch.no_grad():
    output = model(batch["img"])
found = output[0] if isinstance(output, (list, tuple)) else output
numbers["output"] = found.square().mean()
# The scores of an untrained model are low: all boxes compete.
kept = non_max_suppression(found.cpu(), conf_thres=0.0, iou_thres=0.5, max_det=20)
numbers["kept"] = sum(len(boxes) for boxes in kept)
torch.manual_seed(2)
corners = torch.rand(60, 2) * 40
boxes = torch.cat([corners, corners + 5 + torch.rand(60, 2) * 20], 1)
raw = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2], torch.rand(60, 2)], 1).T[None]
for boxes in non_max_suppression(raw.to(where), conf_thres=0.3, iou_thres=0.4):
    numbers |= {"boxes": len(boxes), "places": boxes[:, :4].sum(), "scores": boxes[:, 4].sum()}
report(numbers)

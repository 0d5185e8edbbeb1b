# From the documentation of timm, "Feature extraction", "Flexible intermediate feature map extraction".
import timm
import torch

m = timm.create_model("resnest26d", features_only=True, pretrained=False)
o = m(torch.randn(2, 3, 224, 224))
for x in o:
    print(x.shape)

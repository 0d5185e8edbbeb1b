"""`torch.frombuffer`."""

import pytest

import pytpu as torch


def test_buffers_are_shared():
    b = bytearray(range(16))
    x = torch.frombuffer(b, dtype=torch.int32, count=2, offset=4)
    assert x.tolist() == [0x07060504, 0x0B0A0908]
    b[4] = 0
    x[1] = 0
    assert x[0].item() == 0x07060500 and bytes(b[8:12]) == bytes(4)
    with pytest.raises(BufferError):
        b.append(1)
    del x
    b.append(1)
    # Unaligned memory is copied.
    assert torch.frombuffer(b, dtype=torch.int16, offset=1, count=1).item() == 0x0201
    assert torch.frombuffer(bytearray([0, 2, 1]), dtype=torch.bool).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"offset": 3},
            r"buffer length \(13 bytes\) after offset \(3 bytes\) must be a multiple of element size \(4\)",
        ),
        ({"count": 9}, r"requested buffer length \(9 \* 4 bytes\) after offset \(0 bytes\) must not be greater than"),
        (
            {"offset": 17},
            r"offset \(17 bytes\) must be non-negative and no greater than buffer length \(16 bytes\) minus 1",
        ),
        ({"offset": -1}, r"offset \(-1 bytes\) must be non-negative"),
        ({"count": 0}, r"both buffer length \(16\) and count \(0\) must not be 0"),
    ],
)
def test_too_little_of_a_buffer(arguments, message):
    with pytest.raises(ValueError, match=message):
        torch.frombuffer(bytearray(16), dtype=torch.int32, **arguments)


def test_no_buffer():
    with pytest.raises(ValueError, match="object does not implement Python buffer protocol"):
        torch.frombuffer(3, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="non-contiguous buffers are not supported"):
        torch.frombuffer(memoryview(bytearray(4))[::2], dtype=torch.uint8)

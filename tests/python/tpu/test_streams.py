"""Streams and events of one queue for each device."""

import subprocess
import sys
import textwrap
import threading

import pytest
from patience import HANG_SECONDS

import pytpu as torch


def work(x, times):
    """Launch programs that need each other's results."""
    for _ in range(times):
        x = x @ x * (1 / x.shape[0])
        torch.tpu.mark_step()
    return x


def test_an_event_is_not_completed_before_the_programs_are():
    # Use larger matrices until the device is slower than the host's query.
    for n in (256, 512, 1024, 2048, 4096):
        x = torch.ones(n, n, device="tpu")
        y = work(x, 2)
        y[0, 0].item()
        y = work(x, 2)
        event = torch.Event("tpu", enable_timing=True)
        event.record()
        if not event.query():
            break
    else:
        pytest.fail("an event was completed as soon as it was recorded, whatever was launched before")
    stream = torch.tpu.current_stream()
    event.synchronize()
    assert event.query() is True
    stream.synchronize()
    assert stream.query() is True
    assert y[0, 0].item() == 1.0 and event.elapsed_time(event) == 0


def test_synchronizing_the_device_completes_events():
    x = torch.ones(700, 700, device="tpu")
    y = work(x, 2)
    events = [torch.tpu.Event() for _ in range(3)]
    for event in events:
        event.record()
        y = work(y, 1)
    torch.accelerator.synchronize()
    assert all(event.query() for event in events) and y[0, 0].item() == 1.0


def test_recording_an_event_launches_pending_ops():
    x = torch.ones(8, 8, device="tpu")
    torch.tpu.synchronize()
    before = torch.tpu.metrics()["segments_executed"]
    y = x + 1
    assert torch.tpu.metrics()["segments_executed"] == before
    event = torch.tpu.current_stream().record_event()
    assert torch.tpu.metrics()["segments_executed"] == before + 1
    event.synchronize()
    assert torch.tpu.Stream().query() in (True, False) and y.sum().item() == 128


def test_events_measure_the_time_of_the_device():
    x = torch.ones(1200, 1200, device="tpu")
    work(x, 2)[0, 0].item()
    torch.tpu.synchronize()
    start, middle, end = (torch.tpu.Event(enable_timing=True) for _ in range(3))
    start.record()
    y = work(x, 2)
    middle.record()
    work(y, 2)
    end.record()
    end.synchronize()
    first, second, whole = start.elapsed_time(middle), middle.elapsed_time(end), start.elapsed_time(end)
    assert first > 0 and second > 0 and first + second == pytest.approx(whole)
    assert end.elapsed_time(start) == pytest.approx(-whole)


def test_time_is_asked_of_events_that_have_one(device):
    timed, plain = torch.Event(device, enable_timing=True), torch.Event(device)
    for first, second in ((timed, plain), (plain, timed)):
        with pytest.raises(ValueError, match="^Both events must be created with argument 'enable_timing=True'.$"):
            first.elapsed_time(second)
    recorded = torch.Event(device, enable_timing=True)
    recorded.record()
    for first, second in ((timed, recorded), (recorded, timed)):
        with pytest.raises(ValueError, match="^Both events must be recorded before calculating elapsed time.$"):
            first.elapsed_time(second)
    # Nothing was recorded, so there is nothing to wait for.
    assert timed.query() and timed.synchronize() is None and timed.wait() is None


def test_an_event_that_is_not_completed_has_no_time(monkeypatch):
    start, end = (torch.Event("tpu", enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    monkeypatch.setattr(end, "query", lambda: False)
    with pytest.raises(RuntimeError, match="^Both events must be completed before calculating elapsed time.$"):
        start.elapsed_time(end)


def test_events_belong_to_one_kind_of_device():
    on_cpu, on_tpu = (torch.Event(device, enable_timing=True) for device in ("cpu", "tpu"))
    with pytest.raises(
        RuntimeError, match="^Event device type TPU does not match recording stream's device type CPU.$"
    ):
        on_tpu.record(torch.Stream("cpu"))
    on_cpu.record()
    on_tpu.record()
    with pytest.raises(RuntimeError, match="^Event device type CPU does not match other's device type TPU.$"):
        on_cpu.elapsed_time(on_tpu)


def test_streams_are_chosen_for_a_block_and_a_thread():
    default = torch.tpu.default_stream()
    assert torch.tpu.current_stream() == torch.accelerator.current_stream() == default and default.stream_id == 0
    one, other = torch.tpu.Stream(), torch.Stream("tpu")
    assert len({default, one, other, torch.tpu.default_stream()}) == 3 and one != other
    with torch.tpu.stream(one):
        assert torch.tpu.current_stream() == one and torch.Stream("cpu") == torch.Stream("cpu")
        with other, one, torch.tpu.stream(None):
            assert torch.accelerator.current_stream() == one
        assert torch.tpu.current_stream() == one
        found = []
        thread = threading.Thread(target=lambda: found.append(torch.tpu.current_stream()))
        thread.start()
        thread.join()
        assert found == [default]
    assert torch.tpu.current_stream() == default
    torch.accelerator.set_stream(other)
    assert torch.tpu.current_stream() == other
    torch.tpu.set_stream(default)
    torch.tpu.set_stream(None)
    assert torch.tpu.current_stream() == default
    again = torch.Stream(stream_id=one.stream_id, device_index=one.device_index, device_type=one.device_type)
    assert again == one and again.device.type == "tpu"
    with pytest.raises(TypeError, match="expected a torch.Stream, but got int"):
        torch.accelerator.set_stream(3)
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator tpu."):
        torch.accelerator.current_stream("cpu")


def test_arguments_equal_those_of_cuda():
    assert (
        torch.tpu.Event(True)._timed
        and not torch.tpu.Event()._timed
        and torch.tpu.Event(True, False, False).device.type == "tpu"
    )
    stream = torch.tpu.Stream(0, -1)
    assert (
        stream.device == torch.device("tpu", 0)
        and stream.priority == -1
        and isinstance(stream.record_event(), torch.tpu.Event)
    )


def test_two_streams_give_the_results_of_one():
    # Copies in one stream, products in the other, each step waiting for the other's event.
    generator = torch.Generator().manual_seed(1)
    batches = [torch.randn(16, 16, generator=generator) for _ in range(6)]
    compute, copies = torch.tpu.Stream(), torch.tpu.Stream()
    total, ready = torch.zeros(16, 16, device="tpu"), None
    for batch in [*batches, None]:
        loaded = None
        if batch is not None:
            with torch.tpu.stream(copies):
                loaded = batch.to("tpu", non_blocking=True)
                event = copies.record_event()
        if ready is not None:
            with torch.tpu.stream(compute):
                compute.wait_event(ready[1])
                total += ready[0] @ ready[0].t()
                copies.wait_stream(compute)
        ready = (loaded, event)
    torch.tpu.current_stream().wait_stream(compute)
    want = sum(batch @ batch.t() for batch in batches)
    assert torch.allclose(total.cpu(), want, atol=1e-4)


def test_an_event_waits_for_programs_of_other_threads():
    x = torch.ones(600, 600, device="tpu")
    torch.tpu.synchronize()
    results = []
    threads = [threading.Thread(target=lambda: results.append(work(x, 3))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    event = torch.tpu.Event(True)
    event.record()
    event.synchronize()
    assert event.query() and [y[5, 5].item() for y in results] == [1.0] * 3


def test_events_in_the_other_modes():
    code = """
        import pytpu as torch
        torch.tpu.set_eager_mode("debug")
        start, end = torch.tpu.Event(True), torch.tpu.Event(True)
        start.record()
        y = torch.ones(4, 4, device="tpu") @ torch.ones(4, 4, device="tpu")
        end.record()
        assert end.query() and start.elapsed_time(end) > 0 and y.sum().item() == 64
        torch.tpu.set_eager_mode("strict")
        y = y + 1
        assert torch.tpu.current_stream().synchronize() is None and torch.tpu.current_stream().query()
        print("done")
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert out.stdout == "done\n", out.stderr

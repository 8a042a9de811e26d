# The front door: each target installs what it needs, configures by CMake preset and builds. `make` lists them.
PREFIX ?= /usr/local
POLYHEAD = build/release/cli/polyhead
SOURCES = $(shell find include src capi cli python examples bench tests -regex '.*\.\(h\|c\|cpp\|cu\|cuh\)')

.PHONY: help study test test-sanitized test-arm test-gpu parity site bench wheel wheel-cuda package check install clean command
help:
	@echo 'make study              runs the main job: trains, compares, looks inside, prunes, writes polyhead-study/report.html'
	@echo 'make test               all tests'
	@echo 'make test-sanitized     the fast ones again under AddressSanitizer and UBSan'
	@echo 'make test-arm           kernels, ops and models on 64-bit ARM: cross-compiled, run by an emulator'
	@echo 'make test-gpu           kernels, models, commands and the Python package on a GPU, beside the CPU: where there is one'
	@echo 'make parity             compares tensors, logits and tokens with those of others (fetches torch and transformers into .venv-parity)'
	@echo 'make parity-all         tries attn_implementation="polyhead" in a tiny model of every kind that transformers has'
	@echo 'make bench              measures polyhead beside its peers (fetches them from PyPI into .venv)'
	@echo 'make wheel              the Python package with the command, one wheel for every Python and Linux, in build/wheel'
	@echo 'make wheel-cuda         the same with the kernels for NVIDIA GPUs, in build/wheel-cuda (nvcc 13, or tools/install-packages cuda)'
	@echo 'make package            library and command for every Linux as .deb and .tar.gz, in build/package'
	@echo 'make site               the documents with a reference of every name, in build/site/index.html (fetches mkdocs into .venv-site)'
	@echo 'make check              format, clang-tidy, all sanitizers, four minutes of fuzzing'
	@echo 'make install PREFIX=..  library, headers, command, man page (default $(PREFIX))'
	@echo 'make clean              removes everything that was built'

# Into the folder polyhead-study. A study that was stopped goes on; one that is finished begins anew.
study: command
	$(POLYHEAD) study $(if $(wildcard polyhead-study/study.json),--force,--resume)

test:
	tools/install-packages build test
	cmake --workflow --preset release

test-sanitized:
	tools/install-packages build test
	cmake --workflow --preset asan

test-arm:
	tools/install-packages build test arm64
	cmake --workflow --preset arm64
	qemu-aarch64 build/arm64/examples/example_embed

test-gpu:
	tools/install-packages build test
	cmake --preset release
	cmake --build --preset release --target polyhead_gpu_check polyhead_cli polyhead_native
	python3 tests/gpu/run.py build/release

parity: .venv-parity/ready
	tools/install-packages build test
	cmake --preset release
	cmake --build --preset release --target tokenize_lines model_outputs polyhead_cli polyhead_native cli_training_test
	.venv-parity/bin/python tests/parity/gguf_parity.py build/release
	PATH="$(CURDIR)/.venv-parity/bin:$$PATH" POLYHEAD_CACHE=models $(POLYHEAD) get minilm smollm2
	POLYHEAD_CACHE="$(CURDIR)/models" build/release/tests/cli/cli_training_test --gtest_filter='Examples.OfFetchedModelsRun'
	PYTHONPATH="$(CURDIR)/python" POLYHEAD_LIBRARY="$(CURDIR)/build/release/capi/libpolyhead_c.so" POLYHEAD_CACHE="$(CURDIR)/models" \
	  .venv-parity/bin/python tests/python/tutorials_test.py $(POLYHEAD) --models
	.venv-parity/bin/python tests/parity/model_parity.py build/release models/minilm models/smollm2/*.gguf
	.venv-parity/bin/python tests/parity/tokenizer_parity.py build/release models/minilm models/smollm2/*.gguf
	.venv-parity/bin/python tests/parity/chat_parity.py build/release models/smollm2/*.gguf
	.venv-parity/bin/python tests/parity/text_parity.py build/release models/minilm models/smollm2/*.gguf
	.venv-parity/bin/python tests/parity/replicate_parity.py build/release/cli/polyhead models/minilm
	.venv-parity/bin/python tests/parity/dlpack_parity.py build/release
	.venv-parity/bin/python tests/parity/torch_parity.py build/release
	.venv-parity/bin/python tests/parity/attention_parity.py build/release
	.venv-parity/bin/python tests/parity/tensor_kinds_parity.py build/release
	.venv-parity/bin/python tests/parity/transformers_parity.py build/release models/smollm2/*.gguf
	.venv-parity/bin/python tests/parity/every_model.py build/release --chosen
	.venv-parity/bin/python tests/python/typed.py
	$(MAKE) site

# Every config class of transformers, which takes some minutes.
parity-all: .venv-parity/ready
	tools/install-packages build test
	cmake --preset release
	cmake --build --preset release --target polyhead_native
	.venv-parity/bin/python tests/parity/every_model.py build/release

.venv-parity/ready: tools/parity-requirements.txt
	tools/install-packages venv
	python3 -m venv .venv-parity
	.venv-parity/bin/pip install --quiet --requirement $<
	touch $@

bench: .venv/ready
	tools/install-packages build test bench
	cmake --preset release
	cmake --build --preset release --target polyhead_bench polyhead_cli polyhead_native
	.venv/bin/python bench/run.py

.venv/ready: tools/bench-requirements.txt
	tools/install-packages bench
	python3 -m venv .venv
	.venv/bin/pip install --quiet --requirement $<
	touch $@

# auditwheel makes sure that the wheel runs where its name says. WHEEL_SETTINGS are further --config-settings for pip.
PIP_WHEEL = .venv-wheel/bin/pip wheel --verbose --no-deps --config-settings=cmake.define.POLYHEAD_PORTABLE=ON $(WHEEL_SETTINGS)
AUDIT = PATH="$(CURDIR)/.venv-wheel/bin:$$PATH" auditwheel repair --plat manylinux_2_28_$$(uname -m)
wheel: .venv-wheel/ready
	tools/install-packages build portable
	rm -rf build/wheel
	$(PIP_WHEEL) --config-settings=cmake.define.POLYHEAD_CUDA=OFF --wheel-dir build/wheel/raw .
	$(AUDIT) --wheel-dir build/wheel build/wheel/raw/*.whl
	rm -r build/wheel/raw
	tools/source-archive build/wheel

# Of two wheels of one version, pip takes the one with the higher build number.
wheel-cuda: .venv-wheel/ready
	tools/install-packages build portable cuda
	rm -rf build/wheel-cuda
	$(PIP_WHEEL) --config-settings=cmake.define.POLYHEAD_CUDA=REQUIRED --config-settings=wheel.build-tag=1cu13 --wheel-dir build/wheel-cuda/raw .
	$(AUDIT) --wheel-dir build/wheel-cuda build/wheel-cuda/raw/*.whl
	rm -r build/wheel-cuda/raw
	tools/source-archive build/wheel-cuda

package:
	tools/install-packages build portable
	cmake -S . -B build/portable -G Ninja -DPOLYHEAD_PORTABLE=ON -DPOLYHEAD_CUDA=OFF -DPOLYHEAD_DEVELOPER=OFF
	cmake --build build/portable
	rm -rf build/package
	cpack --config build/portable/CPackConfig.cmake -B build/package
	rm -r build/package/_CPack_Packages
	tools/source-archive build/package

.venv-wheel/ready: tools/wheel-requirements.txt
	tools/install-packages venv
	python3 -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --requirement $<
	touch $@

check:
	tools/install-packages build test check
	clang-format --dry-run --Werror $(SOURCES)
	cmake --workflow --preset debug
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 build/debug/tests/ranks/ranks_calls large \
	  --gtest_also_run_disabled_tests --gtest_filter='*MoreThanTwoGib*'
	printf '%s\n' $(filter-out tests/house/consumer/% src/core/old_glibc.cpp,$(filter %.cpp,$(SOURCES))) | xargs -P "$$(nproc)" -n 1 clang-tidy --quiet -p build/debug
	cmake --workflow --preset asan
	cmake --workflow --preset tsan
	cmake --preset fuzz
	cmake --build --preset fuzz
	tools/fuzz 60
	tools/install-packages portable
	cmake -D ROOT=$(CURDIR) -D BUILD=$(CURDIR)/build/fetcher -P tests/house/fetcher.cmake
	python3 tests/python/install.py build/install

# Any link that leads nowhere ends it.
site: .venv-site/ready
	mkdir -p build
	.venv-site/bin/mkdocs build >build/site.log 2>&1 || { cat build/site.log; exit 1; }
	@echo 'Written to build/site/index.html'

.venv-site/ready: tools/site-requirements.txt
	tools/install-packages venv
	python3 -m venv .venv-site
	.venv-site/bin/pip install --quiet --requirement $<
	touch $@

# The library and the command, without tests.
command:
	tools/install-packages build
	cmake --preset release -DPOLYHEAD_DEVELOPER=OFF
	cmake --build --preset release

install: command
	cmake --install build/release --prefix "$(PREFIX)"

clean:
	rm -rf build .venv .venv-parity .venv-wheel .venv-site

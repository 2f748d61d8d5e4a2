# Shortcuts. Each is one line to cmake or ctest; `make` lists them.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
SHARED_DATA ?= $(wildcard $(CURDIR)/../shared/data)
FUZZ_SECONDS ?= 30
HEARTH := build/release/hearth
CONFIGURE := $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# A build without tests would say that it does not use these.
TESTED := $(CONFIGURE) $(if $(wildcard /usr/bin/python3),-DPython3_EXECUTABLE=/usr/bin/python3) -DHEARTH_SHARED_DATA=$(SHARED_DATA)

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: ## install what is missing, build, get the default model, answer a question
	@tools/setup.sh build
	@cmake --preset release $(CONFIGURE) -DHEARTH_TESTS=OFF > /dev/null && cmake --build --preset release -j $(JOBS) --target hearth_cli hearth
	@$(HEARTH) run smollm2-135m "What is the capital of France, and what is it known for?" -n 120 --temperature 0

build: ## the release build with its tests
	@cmake --preset release $(TESTED) -DHEARTH_TESTS=ON > /dev/null && cmake --build --preset release -j $(JOBS)

test: ## install what is missing, build, run every test
	@tools/setup.sh test
	@$(MAKE) --no-print-directory build
	@ctest --test-dir build/release --output-on-failure -j $(JOBS)

quick: build ## the tests without the slow suites
	@ctest --test-dir build/release --output-on-failure -j $(JOBS) -L 'lint|unit'

asan: ## unit tests under the sanitizers of GCC
	@cmake --preset asan $(TESTED) > /dev/null && cmake --build --preset asan -j $(JOBS)
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure -j $(JOBS) -L 'unit|golden'

tsan: ## the threaded rooms under ThreadSanitizer
	@cmake --preset tsan $(TESTED) > /dev/null && cmake --build --preset tsan -j $(JOBS) --target unit_machine unit_backend unit_kv unit_engine unit_vm unit_server
	@ctest --test-dir build/tsan --output-on-failure -R 'unit_(machine|backend|kv|engine|vm|server)'

clang: ## build with clang 14
	@cmake --preset clang $(TESTED) > /dev/null && cmake --build --preset clang -j $(JOBS)

fuzz: ## clang's sanitizers over the unit tests, then every fuzz target for FUZZ_SECONDS
	@cmake --preset fuzz $(TESTED) > /dev/null && cmake --build --preset fuzz -j $(JOBS)
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/fuzz --output-on-failure -j $(JOBS) -L 'unit|golden'
	@tools/run_fuzzers.sh build/fuzz/tests/fuzz $(FUZZ_SECONDS)

bench: ## micro-benchmarks; writes docs/results/foundation.md
	@cmake --preset release $(CONFIGURE) -DHEARTH_BENCH=ON > /dev/null && cmake --build --preset release -j $(JOBS)
	@python3 bench/write_results.py build/release docs/results/foundation.md

tidy: build ## clang-tidy over the sources
	@git ls-files 'src/*.cpp' | grep -v /kernels/ | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build/release --quiet

format: ## clang-format over all sources
	@git ls-files '*.h' '*.cpp' | xargs clang-format-14 -i

lint: ## formatting and layers, changing nothing
	@git ls-files '*.h' '*.cpp' | xargs clang-format-14 --dry-run -Werror
	@python3 tools/check_layers.py .

.PHONY: help run build test quick asan tsan clang fuzz bench tidy format lint

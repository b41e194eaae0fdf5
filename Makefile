# Every target makes the environment it needs: Python >= 3.11 with venv, a C compiler and make are enough.
PYTHON ?= python3
# With PYTHON=… environments have its version in their names, so that each interpreter keeps its own.
VERSION_OF := import sys, sysconfig; print("-%d.%d%s" % (*sys.version_info[:2], "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))
SUFFIX := $(if $(filter file,$(origin PYTHON)),,$(or $(shell $(PYTHON) -c '$(VERSION_OF)'),$(error PYTHON=$(PYTHON) does not run)))
PYTEST_ARGS ?=
# Options of `make bench`: make bench BENCH_ARGS="--full --report out".
BENCH_ARGS ?= --table --report out
# Processes that share the tests, a file at a time.
WORKERS ?= 2
# On a terminal pip shows what it fetches and builds; in a log its progress would be noise.
PIP := -m pip --disable-pip-version-check install $(if $(MAKE_TERMOUT),,--quiet)

VENV := .venv$(SUFFIX)
# Peers and instrumented kernels stay out of the environment that tests and linters use.
VENV_PEERS := .venv-peers$(SUFFIX)
VENV_SANITIZE := .venv-sanitize$(SUFFIX)
VENV_TSAN := .venv-tsan$(SUFFIX)
VENV_FT := .venv-ft
VENV_SPARK35 := .venv-spark35$(SUFFIX)
VENV_STORES := .venv-stores$(SUFFIX)
VENV_FUZZ := .venv-fuzz$(SUFFIX)
VENV_LOWEST := .venv-lowest$(SUFFIX)
VENV_WHEEL := .venv-wheel$(SUFFIX)
# Each interpreter has one wheel, which all its environments install; instrumented kernels have their own.
WHEELS := build/wheels/$(or $(SUFFIX:-%=%),default)

# Folders are listed too, so that a deleted file counts as a change. Cython writes its C beside the .pyx; that is not a source.
SOURCES := pyproject.toml setup.py $(shell find src \( -name __pycache__ -o -path 'src/_kernels/_*.c' -o -name '*.so' \) -prune -o -print)
C_SOURCES := $(shell find src/_kernels -mindepth 2 \( -name '*.c' -o -name '*.h' \))
CYTHON_SOURCES := $(shell find src/_kernels \( -name '*.pyx' -o -name '*.pxd' \))

comma := ,
# PyTorch's own index has builds without CUDA, which are smaller by gigabytes; a build from elsewhere is as good.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# With its five retries for each package, pip takes seven minutes where that index cannot be reached.
PEER_ENV_opacus := PIP_EXTRA_INDEX_URL="$(TORCH_INDEX)" PIP_RETRIES=1
BUILD_REQUIRES := import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]))
# What setuptools says about patterns of files is no news; errors, the lines of setup.py and what compilers warn of stay.
BUILD_WHEEL := import logging, sys; logging.disable(logging.WARNING); from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1], {"quiet": "1"})
# The environment whose Python builds the wheel: the first that needs it.
BUILDER ?= $(VENV)

SPARK_TESTS := $(wildcard tests/spark tests/api/spark)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two targets that install into one environment at a time would break it.
.NOTPARALLEL:
.PHONY: help demo test test-long test-lowest test-wheel planted prove fuzz test-ft test-aarch64 test-musl test-interop test-spark test-spark4 test-spark35 test-stores ownership bench speed-json speed-table lint docs dist sanitize tsan stubs format hooks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/installed-demo  ## privatise the sample data, estimate from the result, compare with the truth
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python examples/demo.py

test: $(VENV)/installed-test  ## the default tests, on the installed package
	@echo "== running the tests in $(WORKERS) processes: about 12 minutes of CPU time, 6 on two quiet cores"
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --by-file $(PYTEST_ARGS)

test-long: $(VENV)/installed-test  ## all tests, the long ones too; PART=1/4 runs a quarter of the files
	@echo "== running $(if $(PART),part $(PART) of )all tests in $(WORKERS) processes; all parts take about 3 hours on two cores"
	$(VENV)/bin/python -m pytest -m "long or not long" -n $(WORKERS) --dist loadfile --by-file $(if $(PART),--part $(PART)) $(PYTEST_ARGS)

# Exactly the lower bounds of pyproject.toml, of the package and of what tests it.
LOWEST := accounting,batch,minimax,pandas,test
test-lowest: $(VENV_LOWEST)/installed-lowest  ## the default tests with the oldest versions that pyproject.toml allows
	$(VENV_LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile --by-file $(PYTEST_ARGS)

# As whoever installs a wheel has it: no compiler on PATH, no source tree in the way.
test-wheel: dist  ## the default tests on the wheel in dist/, installed into an environment without a compiler
	@test -x $(VENV_WHEEL)/bin/python || $(PYTHON) -m venv $(VENV_WHEEL)
	PATH="$(CURDIR)/$(VENV_WHEEL)/bin" $(VENV_WHEEL)/bin/python $(PIP) "$$(echo dist/dpcore-*.whl)[accounting,batch,minimax,test]"
	PATH="$(CURDIR)/$(VENV_WHEEL)/bin" $(VENV_WHEEL)/bin/python $(PIP) --no-deps --force-reinstall dist/dpcore-*.whl
	$(VENV_WHEEL)/bin/python -m pytest -m "not long and not source_tree" -n $(WORKERS) --dist loadfile --by-file $(PYTEST_ARGS)

# PLANTED_ARGS="--list", or names and patterns of faults.
PLANTED_ARGS ?=
planted: $(VENV)/installed-test  ## plant each fault of tests/planted in a copy of the package: its tests must fail; 40 minutes
	PYTHONPATH=tests $(VENV)/bin/python -m planted --jobs $(if $(filter 0,$(WORKERS)),1,$(WORKERS)) $(PLANTED_ARGS)

# REQUIRE=1 makes it an error that Gappa or Sollya is not installed; PROVE_ARGS has names of lemmas, or --table.
PROVE_ARGS ?=
prove: $(VENV)/installed-test  ## prove the bounds of the kernels from their sources, and the sensitivities of all kinds; needs gappa and sollya
	PYTHONPATH=tests $(VENV)/bin/python -m proofs $(if $(REQUIRE),--require) $(PROVE_ARGS)

# Each target gets an equal share; a target ends at its first finding, and the line that shows it again is printed.
MINUTES ?= 10
FUZZ_ARGS ?=
fuzz: $(VENV_FUZZ)/installed-fuzz  ## inputs at random for whatever reads files of others, MINUTES=10 of CPU in all; new ones go to out/fuzz
	PYTHONPATH=tests $(VENV_FUZZ)/bin/python -m fuzz --minutes $(MINUTES) $(FUZZ_ARGS)

ownership: $(VENV)/installed-test  ## that no random bit has two owners: watched, flipped, proved, and seen in the outputs
	$(VENV)/bin/python -m pytest -m "long or not long" -n $(WORKERS) tests/kernels/test_ownership.py tests/kernels/test_address_proof.py \
	  tests/statistical/test_independence.py $(PYTEST_ARGS)

bench: $(VENV_PEERS)/installed-bench  ## time everything beside its peers and bounds; a page of ratios in out/bench.html
	$(VENV_PEERS)/bin/dpcore bench $(BENCH_ARGS)

# Each tool that dpcore.interop serves has an environment of its own, as some exclude each other. PEER=name runs one of them.
PEERS := $(shell sed -n 's/^peer-\([a-z0-9]*\) = .*/\1/p' pyproject.toml)
PEER ?= $(PEERS)
test-interop: $(PEER:%=test-interop-%)  ## the tests of dpcore.interop, tool by tool; PEER=name for one of them

test-interop-%: .venv-peer-%$(SUFFIX)/installed-interop
	@echo "== $*"
	.venv-peer-$*$(SUFFIX)/bin/python -m pytest -m "long or not long" -n $(WORKERS) --dist loadfile tests/interop $(PYTEST_ARGS)

# One process: the tests share a cluster of two workers. Both versions of Spark run all of them.
test-spark: test-spark4 test-spark35  ## the tests of dpcore.spark with pyspark 4 and pyspark 3.5; Java comes from PyPI

test-spark4: $(VENV)/installed-test  ## the tests of dpcore.spark with pyspark 4 alone
	$(VENV)/bin/python -m pytest -m "long or not long" -n 0 $(SPARK_TESTS) $(PYTEST_ARGS)

test-stores: $(VENV_STORES)/installed-stores  ## the tests of jobs on S3, Google's store and tables of Delta Lake, with servers on this machine
	$(VENV_STORES)/bin/python -m pytest -m "long or not long" -n $(WORKERS) --dist loadfile tests/stores tests/api/batch/tables/test_partitions.py $(PYTEST_ARGS)

test-spark35: $(VENV_SPARK35)/installed-spark35  ## the tests of dpcore.spark with pyspark 3.5 and Java 17 alone
	$(VENV_SPARK35)/bin/python -m pytest -m "long or not long" -n 0 $(SPARK_TESTS) $(PYTEST_ARGS)

# The machine should do nothing else meanwhile. SPEED_ARGS=--quick takes six minutes in all, JOBS_ARGS=--full forty minutes more.
SPEED_ARGS ?= --full
JOBS_ARGS ?= --quick
# NumPy and MKL stay without AVX-512, too, where dpcore does.
AT_X86_V3 := DPCORE_ISA=x86_v3 MKL_ENABLE_INSTRUCTIONS=AVX2 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
speed-json: $(VENV_PEERS)/installed-bench  ## measure a machine with AVX-512 for docs/speed.md and the README: 45 minutes; then write their tables
	mkdir -p benchmarks/results
	$(VENV_PEERS)/bin/dpcore bench $(SPEED_ARGS) --table --json benchmarks/results/speed-x86_v4.json --report out
	$(AT_X86_V3) $(VENV_PEERS)/bin/dpcore bench $(SPEED_ARGS) --table --json benchmarks/results/speed-x86_v3.json
	$(VENV_PEERS)/bin/dpcore bench --only tables $(JOBS_ARGS) --table --json benchmarks/results/jobs.json
	$(VENV_PEERS)/bin/python docs/speed_tables.py

speed-table: $(VENV)/installed-test  ## write the tables of docs/speed.md and the README from benchmarks/results
	$(VENV)/bin/python docs/speed_tables.py

# Rules of the project that no linter knows: layers, docstrings, citations, words, lengths, and stubs as mypy reads them.
HOUSE_TESTS := $(addprefix tests/packaging/test_,layers.py house.py literature.py docstrings.py methods.py module_state.py)

lint: $(VENV)/installed-lint  ## ruff, mypy, import-linter, cython-lint, clang-format, zizmor, and the project's own rules
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	PYTHONPATH=src $(VENV)/bin/lint-imports --no-logo
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cython-lint $(CYTHON_SOURCES)
	$(VENV)/bin/clang-format --dry-run --Werror $(C_SOURCES)
	$(VENV)/bin/zizmor --offline --quiet .github
	$(VENV)/bin/python -m pytest -q -m "long or not long" -k "not examples_in_docstrings" $(HOUSE_TESTS)

docs: $(VENV)/installed-docs  ## build the documentation into docs/_build/html and look at its links and its search, in 2 minutes of CPU time; a warning is an error
	$(VENV)/bin/sphinx-build --fail-on-warning --keep-going --fresh-env -b html docs docs/_build/html
	$(VENV)/bin/python docs/check_site.py docs/_build/html
	$(VENV)/bin/python docs/print_pages.py docs/_build/html
	@echo "== done: docs/_build/html/index.html"

# What a release uploads. Times of files are those of the commit, so that two builds of one commit have the same bytes.
PLATFORM := manylinux_2_28_$(shell uname -m)
dist: $(VENV)/installed-test  ## build the sdist and the wheel of this interpreter, as a release has them, into dist/
	rm -rf dist
	SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct || date +%s)" $(VENV)/bin/python -P -m build --no-isolation --sdist --wheel --outdir dist
	if [ "$$(uname)" = Linux ]; then PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m auditwheel repair --plat $(PLATFORM) --wheel-dir dist \
	  dist/dpcore-*-linux_*.whl && rm dist/dpcore-*-linux_*.whl; fi

# The interpreter is not instrumented, so the runtime is loaded before it; the C++ runtime beside it, as NumPy and SciPy throw across it.
sanitize: $(VENV_SANITIZE)/installed-sanitize  ## kernel tests under AddressSanitizer and UBSan (Linux, gcc)
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) libstdc++.so.6" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(VENV_SANITIZE)/bin/python -m pytest tests/kernels $(PYTEST_ARGS)

# As above, for races. What is suppressed belongs to the interpreter and to NumPy, which are not instrumented, and to nothing of ours.
tsan: $(VENV_TSAN)/installed-tsan  ## threads on all kernels and shared objects under ThreadSanitizer (Linux, gcc)
	LD_PRELOAD="$$($(CC) -print-file-name=libtsan.so)" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/kernels/tsan.supp exitcode=66 die_after_fork=0 ignore_noninstrumented_modules=0" \
	$(VENV_TSAN)/bin/python -m pytest -p no:cacheprovider tests/kernels/test_thread_stress.py tests/kernels/test_processes.py $(PYTEST_ARGS)

# PYTHON_FT names a free-threaded interpreter, for instance python3.14t. Extras whose wheels it lacks are left out, and their tests with them.
test-ft:  ## the default tests on the free-threaded interpreter that PYTHON_FT names, without the GIL
	@test -n "$(PYTHON_FT)" || { echo 'PYTHON_FT names no interpreter: make test-ft PYTHON_FT=python3.14t'; exit 2; }
	@$(PYTHON_FT) -c 'import sysconfig, sys; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || \
	{ echo '$(PYTHON_FT) is no free-threaded interpreter'; exit 2; }
	$(MAKE) $(VENV_FT)/installed-ft PYTHON=$(PYTHON_FT)
	PYTHON_GIL=0 $(VENV_FT)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

# Programs in C first: their digests must be this machine's. Then the package, if there is a Python to run it.
# $(1): the machine, $(2): programs, $(3): their packages, $(4): the variable, $(5): what it names.
define on_other_machine
	@for program in $(2); do command -v $$program > /dev/null || { echo 'make $@ needs $(3): apt-get install $(3)'; exit 2; }; done
	$(VENV)/bin/python -m pytest -m "long or not long" -n 0 -k $(1) tests/kernels/test_platforms.py tests/kernels/test_aarch64_entries.py
	@if [ -n "$($(4))" ]; then PYTHONPATH=tests $(VENV)/bin/python -m machines $(1) "$($(4))" $(PYTEST_ARGS); \
	else echo '== only programs in C have run: $(4)=... names $(5); see "Other machines" in CONTRIBUTING.md'; fi
endef

AARCH64_ROOT ?=
test-aarch64: $(VENV)/installed-test  ## kernels and chosen tests on aarch64, emulated; AARCH64_ROOT names a Debian system for arm64; an hour
	$(call on_other_machine,aarch64,aarch64-linux-gnu-gcc qemu-aarch64,gcc-aarch64-linux-gnu qemu-user,AARCH64_ROOT,the folder of a Debian system for arm64)

MUSL_PYTHON ?=
test-musl: $(VENV)/installed-test  ## kernels and the tests of the API on musl; MUSL_PYTHON names a Python that was built with it
	$(call on_other_machine,musl,musl-gcc,musl-tools,MUSL_PYTHON,a Python that was built with musl)

stubs: $(VENV)/installed-test  ## write what type checkers read of the methods of tables, from the kinds of queries
	$(VENV)/bin/python tests/support/method_stubs.py src/dpcore/frames/_methods.pyi

format: $(VENV)/installed-lint  ## rewrite Python and C in the house style
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format
	$(VENV)/bin/clang-format -i $(C_SOURCES)

hooks: $(VENV)/installed-lint  ## run the linters before every commit
	$(VENV)/bin/pre-commit install

clean:  ## remove everything that make has made
	rm -rf .venv .venv-* build dist wheelhouse *.egg-info docs/_build out
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache
	rm -f src/_kernels/_*.c
	find src tests benchmarks examples docs -name __pycache__ -prune -exec rm -rf {} +

# One environment with what the build itself needs, so that builds run inside it, reuse the objects in build/ and fetch nothing twice.
%/build-ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("dpcore needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	@echo "== making the environment $*, and fetching what the build needs: a minute, the first time"
	@test -x $*/bin/python || $(PYTHON) -m venv $*
	@$*/bin/python -c '$(BUILD_REQUIRES)' > $*/build-requires.txt
	@$*/bin/python $(PIP) -r $*/build-requires.txt
	@touch $@

# The wheel that all environments install. Python files left from an older build are removed first: setuptools would pack them.
build/wheels/%/built: $(SOURCES)
	@echo "== compiling the kernels, on all processors: 1.5 minutes of CPU time the first time, seconds after a change of Python files"
	@mkdir -p $(@D) && rm -f $(@D)/*.whl
	@find build -path '*/lib*' \( -name '*.py*' -o -name '*.j2' \) -delete
	@$(BUILDER)/bin/python -P -c '$(BUILD_WHEEL)' $(@D)
	@touch $@

# $(1): environment, $(2): target, $(3): extras, $(4): environment variables of pip, $(5): sanitizer of the kernels. pip takes a wheel of
# the same version for what it has installed already, so the wheel itself comes last.
define install
$(1)/installed-$(2): $(1)/build-ready $(SOURCES)
	@DPCORE_SANITIZE=$(5) $$(MAKE) --no-print-directory $(WHEELS)$(5:%=-sanitize-%)/built BUILDER=$(1)
	@echo "== installing dpcore and the packages of its extras $(3) into $(1)"
	@$(4) $(1)/bin/python $(PIP) "$$$$(echo $(WHEELS)$(5:%=-sanitize-%)/dpcore-*.whl)[$(3)]"
	@$(1)/bin/python $(PIP) --no-deps --force-reinstall $(WHEELS)$(5:%=-sanitize-%)/dpcore-*.whl
	@touch $$@
endef

$(eval $(call install,$(VENV),demo,batch$(comma)pandas))
$(eval $(call install,$(VENV),test,accounting$(comma)batch$(comma)minimax$(comma)spark-connect$(comma)test$(comma)proofs$(comma)packaging))
$(eval $(call install,$(VENV_STORES),stores,batch$(comma)delta$(comma)test-stores))
$(eval $(call install,$(VENV_FUZZ),fuzz,batch$(comma)test-fuzz))
$(eval $(call install,$(VENV_SPARK35),spark35,batch$(comma)test-spark35))
$(eval $(call install,$(VENV),lint,dev))
$(eval $(call install,$(VENV),docs,batch$(comma)minimax$(comma)docs))
$(eval $(call install,$(VENV_PEERS),bench,batch$(comma)test$(comma)peers))
$(eval $(call install,$(VENV_SANITIZE),sanitize,test,,1))
$(eval $(call install,$(VENV_TSAN),tsan,test,,thread))
$(eval $(call install,$(VENV_LOWEST),lowest,$(LOWEST),PIP_CONSTRAINT=$(VENV_LOWEST)/constraints.txt))
# Tumult takes no pyarrow that the jobs run with; diffprivlib reads the columns of pandas and polars, which it does not ask for.
PEER_EXTRAS_diffprivlib := pandas$(comma)polars$(comma)
$(foreach peer,$(PEERS),$(eval $(call install,.venv-peer-$(peer)$(SUFFIX),interop,$(if $(filter tumult%,$(peer)),,batch$(comma))$(PEER_EXTRAS_$(peer))test-tools$(comma)peer-$(peer),$(PEER_ENV_$(peer)))))
# The newest release of a package may have no wheel for a free-threaded interpreter; then an older one that has.
$(eval $(call install,$(VENV_FT),ft-core,test,PIP_PREFER_BINARY=1))

$(VENV_LOWEST)/installed-lowest: $(VENV_LOWEST)/constraints.txt
$(VENV_LOWEST)/constraints.txt: tests/support/lower_bounds.py pyproject.toml $(VENV_LOWEST)/build-ready
	$(VENV_LOWEST)/bin/python tests/support/lower_bounds.py $(LOWEST) > $@

# One extra at a time, from wheels only: which of them have wheels for a free-threaded interpreter changes from month to month.
$(VENV_FT)/installed-ft: $(VENV_FT)/installed-ft-core
	for package in pyarrow duckdb click rich pydantic matplotlib jinja2 clarabel dp-accounting; do \
	$(VENV_FT)/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: $$package || echo "without $$package"; done
	touch $@

# make demo: set everything up and run the main job.   make test: set everything up and pass the tests.
# make docs: the documentation as a site that opens without a network, in site/.
# make dist: the source distribution and this platform's wheel, in dist/.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests wait for stations, browsers and disks: one worker more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: demo test docs browser broker dist clean

demo: $(VENV)/.installed
	$(BIN)/hyperfsad demo

test: $(VENV)/.installed-test browser broker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 4 --dist loadscope --no-loadscope-reorder

# The report is tested in a real browser; without one, those tests are skipped and say so.
browser:
	@for name in chromium chromium-browser google-chrome; do \
		command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of the report"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
			|| echo "chromium could not be installed; the tests of the report in a browser are skipped"; \
	else \
		echo "No chromium: for the tests of the report in a browser, install it (apt install chromium)"; \
	fi

# Connections are tested with a real MQTT broker; without one, those tests are skipped and say so.
broker:
	@PATH="$$PATH:/usr/sbin"; command -v mosquitto >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing mosquitto for the tests of connections"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends mosquitto; } >/dev/null \
			|| echo "mosquitto could not be installed; the tests with a broker are skipped"; \
	else \
		echo "No mosquitto: for the tests of connections with a broker, install it (apt install mosquitto)"; \
	fi

$(VENV)/.installed: pyproject.toml setup.py src/hyperfsad/method/_kernel.c
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed constraints-test.txt
	$(BIN)/python -m pip install --quiet --constraint constraints-test.txt --editable '.[test]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

dist: $(VENV)/.installed-test
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site src/*.egg-info

# make lab        everything a person needs: environment, quickstart run to its .onnx and HTML, then JupyterLab
# make lab-files  the same without the server
# make test       everything a developer needs: environment, ruff, mypy, pytest
#
# A fresh machine needs Python >= 3.11 and make. On Linux the default torch brings several GB of CUDA; the small
# CPU build: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make lab

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
OUT ?= build/quickstart
LAB_FLAGS ?=
PYTEST_FLAGS ?= -n auto --maxprocesses=8 --dist loadgroup

# The environment that make was called from is not the one in which things run here.
unexport VIRTUAL_ENV

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PACKAGE := $(shell find onnx_lab -type f ! -name '*.pyc')
# A notebook takes two files of this package, and nothing of what it depends on.
ONLY_DATA := --no-deps silero-vad
# JupyterLab refuses to start as root unless told to; in a container everybody is root.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help env lab lab-files notebooks lint test constraints clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

env: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make environments (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Installing the package and what it needs (about 1.5 GB with the CPU build of torch; a few minutes)"
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check -q -e '.[test]'
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --disable-pip-version-check -q $(ONLY_DATA)
	@# The first import lists the fonts of the machine, and says so in the notebook when that takes long.
	$(BIN)/python -c 'import matplotlib.font_manager'
	@touch $@

$(OUT)/01_quickstart.html: notebooks/01_quickstart.py notebooks/build.py $(PACKAGE) $(INSTALLED)
	$(BIN)/python notebooks/build.py 01_quickstart --into $(OUT)

lab-files: $(OUT)/01_quickstart.html
	@ls -l $(OUT)/*.onnx $(OUT)/*.html

lab: lab-files
	$(BIN)/jupyter lab $(AS_ROOT) $(LAB_FLAGS) notebooks/01_quickstart.ipynb

# Rebuild the committed notebooks from their .py sources.
notebooks: $(INSTALLED)
	$(BIN)/python notebooks/build.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

# Resolve everything anew, and pin it.
constraints:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --disable-pip-version-check -q '.[test]'
	build/pins/bin/python -m pip install --disable-pip-version-check -q $(ONLY_DATA)
	build/pins/bin/python binder/pin.py

clean:
	rm -rf $(VENV) build

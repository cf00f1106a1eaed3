# MindPort. Needs Python 3.10–3.12 and make, nothing else; `make` alone lists the targets.
#   PYTHON=python3.11   the interpreter that .venv is made with (default: the first suitable one on the PATH)
#   VENV=.venv          where the environment is
#   FUZZ_SECONDS=60     how long `make fuzz` takes; FUZZ_SEED repeats a run
#   WORKERS=2           processes that run the tests, 2 GB each
#   ARGS="..."          passed on to `mindport run`, pytest, JupyterLab or `mindport bench`

WORKERS ?= 2
VENV ?= .venv
PYTHON ?=
ARGS ?=
BIN = $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# Any Python can read .ci/setup.py, which then looks for one that MindSpore supports.
LAUNCHER := $(shell for p in python3 python3.12 python3.11 python3.10 python; do \
	if $$p -c "" >/dev/null 2>&1; then echo $$p; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help setup run test lab check bench kill orphans peer fuzz sanitize clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

setup:  ## make or refresh the environment in .venv
	@test -n "$(LAUNCHER)" || { echo "set-up failed: no Python on the PATH; install Python 3.11" >&2; exit 1; }
	@$(LAUNCHER) .ci/setup.py --venv "$(VENV)" --python "$(PYTHON)"

run: setup  ## take SmolLM2-135M through the notebooks, leave the report in runs/
	$(BIN)/mindport run $(ARGS)

test: setup  ## run the tests, in WORKERS (2) processes
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lab: setup  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks $(ARGS)

check: setup  ## lint and format of code and notebooks, types of the light modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.notebooks.lint
	$(BIN)/mypy

bench: setup  ## time the library beside its peers on this machine; leaves runs/bench/*.json
	@mkdir -p runs/bench
	@for name in attention layer step train knobs convert data parallel; do \
		$(BIN)/mindport bench $$name --json runs/bench/$$name.json $(ARGS) || failed="$$failed $$name"; echo; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

KILL = --times 20 --set batch.rows=2 --set dropout=0.1 --set checkpoints.every=4 --set schedule.warmup=5 \
	--set monitor.sample_every=0 --set monitor.tensorboard=false
RANKS = --set mode=graph --set steps=40 --set data.tokens=64 --set checkpoints.sharded=true
kill: setup  ## kill trainings at 20 moments, resume each time, compare every bit: both modes, one process and ranks
	$(BIN)/python -m mindport.training.kill_test data/training/tiny-gpt2.yaml $(KILL) --set steps=60 --set data.tokens=64
	$(BIN)/python -m mindport.training.kill_test data/training/tiny-llama.yaml $(KILL) --set steps=40 --set data.tokens=48 \
		--set mode=pynative
	$(BIN)/python -m mindport.training.kill_test data/training/tiny-gpt2.yaml $(KILL) $(RANKS) --set parallel.tp=2
	$(BIN)/python -m mindport.training.kill_test data/training/tiny-llama.yaml $(KILL) $(RANKS) --set parallel.dp=2 \
		--set parallel.tp=2 --times 8
	$(BIN)/python -m mindport.training.kill_test data/training/tiny-gpt2.yaml $(KILL) $(RANKS) --set steps=12 \
		--resume-under tp2:tp2 tp2:dp2 tp2:dp1 dp1:tp2

orphans: setup  ## end 36 launches by force, in every way that is known, and count the processes that are left
	$(BIN)/python -m mindport.parallel.launch.violence --times 36 $(ARGS)

peer: setup  ## hold our weights and YAML to MindSpore Transformers itself; writes docs/mindformers.md
	$(BIN)/python .ci/peer/peer.py $(ARGS)

fuzz: setup  ## edit models at random for FUZZ_SECONDS (60): results and typed errors only
	$(BIN)/python -W ignore -m tests.fuzz

sanitize: setup  ## call every C++ operator under the address and undefined-behaviour sanitizers
	$(BIN)/python -m tests.model.kernels.sanitize

clean:  ## remove the environment and the tools' caches; runs/ stays
	@if test -e "$(VENV)" && ! test -f "$(VENV)/pyvenv.cfg"; then echo "$(VENV) is no virtual environment: left alone" >&2; exit 1; fi
	rm -rf "$(VENV)" .pytest_cache .ruff_cache .mypy_cache .hypothesis lib/*.egg-info
	find lib tests data notebooks .ci -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

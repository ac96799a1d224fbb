# Every target sets up what it needs in .venv, once, and is safe to run twice. `make help` lists them.
#   PYTHON=…  which Python makes .venv    PORT=…  JupyterLab's port    ARGS=…  passed on to the program that the target runs
#   WORKERS=…  files of tests at a time, for make test
#   REPO=… REF=…  where the course is published, for make address
#   LAB=…  a lab by name or number        NOTEBOOK=…  the notebook that make grade grades
#   SUBMISSIONS=…  a folder or .zip of a class, for make grade, with JOBS= ROSTER= DUE= EXTENSIONS= LMS=canvas|moodle

SHELL := /bin/sh
PORT ?= 8888
ARGS ?=
REPO ?=
REF ?=
LAB ?=
NOTEBOOK ?=
SUBMISSIONS ?=
JOBS ?=
ROSTER ?=
DUE ?=
EXTENSIONS ?=
LMS ?=
N ?= 1
CELL_TIMEOUT ?= 300
WORKERS ?= 2
PY := .venv/bin/python
export PYTHON
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help lab test measure price record figures verify address labs grade bench soak site refresh format lint clean core extras grader

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: core ## JupyterLab on the first lesson (PORT=, ARGS=)
	@$(PY) -m tools.lab $(PORT) $(ARGS)

test: extras ## everything: lint, tests, every lesson and lab run and compared, the gates, a real browser
	@$(PY) -m pytest -n $(WORKERS) --dist loadfile -p tools.pytest_lessons -p tools.pytest_again -rR --nbval-lax --nbval-current-env --nbval-cell-timeout=$(CELL_TIMEOUT) \
	    --nbval-sanitize-with=tools/nbval_sanitize.cfg --durations=25 --durations-min=3 tests notebooks solutions $(ARGS)

measure: core ## the receipt of one add on this machine (ARGS=--json, ARGS=--device=cuda)
	@$(PY) -m utils price $(ARGS)

price: measure ## the same as measure

record: core ## run every instrument and write one recording (ARGS=--out=…)
	@$(PY) -m utils record $(ARGS)

figures: core ## draw the receipt figure from the recordings
	@$(PY) -m utils figures $(ARGS)

verify: core ## check every recording: whole, consistent, in range (ARGS=FILE for one)
	@for file in $(or $(ARGS),$(wildcard utils/recordings/*.json utils/recordings/studies/*/*.json)); do $(PY) -m utils verify "$$file" || exit 1; done

address: grader ## where the course is published: every badge and first cell (REPO=OWNER/NAME REF=TAG; none shows it)
	@$(PY) -m tools.address --repo="$(REPO)" --ref="$(REF)" $(ARGS) && if [ -n "$(REPO)" ]; then $(PY) -m grading.release; fi

labs: grader ## generate the student editions of the labs from solutions/ (LAB= for one)
	@$(PY) -m grading.release $(LAB)

grade: ## grade a notebook (LAB=lab1 NOTEBOOK=FILE) or a class (LAB=lab1 SUBMISSIONS=FOLDER_OR_ZIP, ARGS=--help)
	@if [ -z "$(LAB)" ] || [ -z "$(NOTEBOOK)$(SUBMISSIONS)$(ARGS)" ]; then \
	    echo "make grade: say which lab and what: make grade LAB=lab1 NOTEBOOK=path/to/the.ipynb, or SUBMISSIONS=folder_or_zip" >&2; \
	    exit 2; fi
	@for there in $(if $(NOTEBOOK),"$(NOTEBOOK)") $(if $(SUBMISSIONS),"$(SUBMISSIONS)"); do \
	    [ -e "$$there" ] || { echo "make grade: $$there: no such file" >&2; exit 2; }; done
	@$(MAKE) grader && if [ -n "$(NOTEBOOK)" ]; then $(PY) -m grading.grade "$(LAB)" "$(NOTEBOOK)" $(ARGS); \
	    else $(PY) -m grading.klass "$(LAB)" $(if $(SUBMISSIONS),"$(SUBMISSIONS)") $(if $(JOBS),--jobs "$(JOBS)") \
	    $(if $(ROSTER),--roster "$(ROSTER)") $(if $(DUE),--due "$(DUE)") $(if $(EXTENSIONS),--extensions "$(EXTENSIONS)") \
	    $(if $(LMS),--lms "$(LMS)") $(ARGS); fi

bench: grader ## every benchmark beside its peer; fails when a bar is short (ARGS=--device=cuda)
	@short=0; for script in benchmarks/[a-z]*.py; do \
	    echo "== $$script"; $(PY) "$$script" $(ARGS) || short=1; \
	done; exit $$short

soak: extras ## the lessons N times over (N=10), with both cores busy when LOADED=1
	@$(PY) -m tools.soak --runs $(N) $(if $(filter-out 0,$(LOADED)),--loaded) $(ARGS)

site: ## the course as a static site in build/site, from what is committed (ARGS=--out=FOLDER)
	@sh tools/environment.sh site && $(PY) -m tools.site $(ARGS)

refresh: extras ## run the lessons again and rewrite those that say something else (ARGS=--check, ARGS=notebooks/04_launch.ipynb)
	@$(PY) -m tools.refresh $(ARGS)

format: extras ## bring code and notebooks into their one format
	@$(PY) -m ruff check --fix --quiet . ; $(PY) -m ruff format --quiet . && $(PY) -m tools.notebooks format && $(PY) -m tools.syllabus

lint: extras ## ruff, the notebooks' rules and the repository's
	@$(PY) -m ruff check . && $(PY) -m ruff format --check --quiet . && $(PY) -m tools.notebooks format --check && \
	    $(PY) -m tools.lint

clean: ## remove .venv and everything else that can be made again (your results are elsewhere and stay)
	@rm -rf .venv .venv-colab .pytest_cache .ruff_cache build
	@find . -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

core:
	@sh tools/environment.sh

extras:
	@sh tools/environment.sh test grade cluster site

grader:
	@sh tools/environment.sh grade

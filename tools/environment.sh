#!/bin/sh
# environment.sh [EXTRA …]: .venv with pyproject's pinned dependencies and those of the extras, made once.
#
# Finds any Python from 3.11 on (PYTHON=… chooses one). A stamp named after a checksum of pyproject says what is installed,
# so a second call does nothing. Every way in which it cannot go on is one line that says what is missing; exit 2.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
extras=$*
pins=$venv/.stamp-$(sed "/^\[tool/,\$d" pyproject.toml | cksum | cut -d" " -f1)
named=$(for extra in $extras; do printf -- '-%s' "$extra"; done) # "" or "-test-grade"
range='sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))'

stop() {
    echo "make: $*" >&2
    exit 2
}

fits() { # a name on PATH is not enough: version managers leave shims that do not run
    "$1" -c "import sys; $range" >/dev/null 2>&1
}

# Prints the Python to use. Its callers are `x=$(find_python)`, where `set -e` ends the script when this stops.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        fits "$PYTHON" || stop "PYTHON=$PYTHON is not a Python from 3.11 to 3.14 that runs here."
        echo "$PYTHON"
        return
    fi
    for name in python3 python python3.13 python3.12 python3.11 python3.14; do
        if fits "$name"; then
            echo "$name"
            return
        fi
    done
    stop "no Python from 3.11 to 3.14 found (python3 is $(python3 --version 2>&1 || echo absent)); install one, or say PYTHON=/path/to/python."
}

installed() { # some stamp of these pins names every extra that is asked for; an extra brought the core with it
    for file in "$pins" "$pins"-*; do
        [ -e "$file" ] || continue
        for extra in $extras; do
            case ${file#"$pins"}- in *-"$extra"-*) ;; *) continue 2 ;; esac
        done
        return 0
    done
    return 1
}

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none; }

if [ -e "$venv" ] && [ -n "${PYTHON:-}" ]; then
    python=$(find_python)
    if [ "$(version "$python")" != "$(version "$venv/bin/python")" ]; then
        echo "$venv is not of Python $(version "$python"), which PYTHON=$PYTHON asks for: making it again."
        rm -rf "$venv"
    fi
fi
if "$venv/bin/python" -c '' 2>/dev/null; then
    installed && exit 0
fi
if [ -e "$venv" ] && ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "$venv does not run (moved, or its making was interrupted): making it again."
    rm -rf "$venv"
fi

if [ ! -e "$venv" ]; then
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
        stop "$python has no venv or ensurepip (Debian and Ubuntu: apt-get install python3-venv); install it, or say PYTHON=another."
    echo "Making $venv with Python $(version "$python")."
    "$python" -m venv "$venv" || stop "$python could not make $venv (is the disk full, or this folder read-only?)."
fi
"$venv/bin/python" tools/requirements.py $extras >"$venv/requirements$named.txt"
echo "Installing the pinned dependencies${extras:+ and those of $extras} into $venv: once, some minutes (torch is the large one)."
[ -t 1 ] && quiet= || quiet=-qq # in a log, only errors
PIP_USER=0 "$venv/bin/python" -m pip install --disable-pip-version-check $quiet \
    -r "$venv/requirements$named.txt" </dev/null ||
    stop "pip could not install them (its reason is above; offline, or no room on the disk?). Run the same command again to go on."
for file in "$venv"/.stamp-*; do
    case $file in "$pins" | "$pins"-*) ;; *) rm -f "$file" ;; esac # pins of an older pyproject
done
: >"$pins$named"

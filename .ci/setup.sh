#!/bin/sh
# Makes .venv with the locked requirements and this project in it. Usage: setup.sh run|dev
# Does nothing when the locks have not changed. A lock is the whole closure, so pip resolves nothing (--no-deps): a new
# release on the index cannot break an old lock. uv is used where it is installed; python3 -m venv and pip do as well.
set -eu
cd "$(dirname "$0")/.."
level=$1
case $level in run) lock=requirements.lock ;; dev) lock=requirements-dev.lock ;; *) echo "usage: setup.sh run|dev" >&2; exit 2 ;; esac

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$name"; return; fi
    done
    die "Python 3.11 or newer is needed; found: $(python3 -V 2>&1 || true). Install it, or: make PYTHON=/path/to/python3.11"
}

mark() { cat pyproject.toml "$1" .ci/setup.sh 2>/dev/null | cksum | tr -d ' '; }

done_already() {  # the dev level contains the run level
    [ -x .venv/bin/gpu-runbooks ] || return 1
    [ "$(cat .venv/.made-dev 2>/dev/null)" = "$(mark requirements-dev.lock)" ] && return 0
    [ "$level" = run ] && [ "$(cat .venv/.made-run 2>/dev/null)" = "$(mark requirements.lock)" ]
}

make_venv() {
    [ -x .venv/bin/python ] && return
    py=$(find_python)
    say "making .venv with $py"
    if command -v uv >/dev/null 2>&1; then uv venv -q --python "$py" .venv; return; fi
    if ! "$py" -c 'import ensurepip' 2>/dev/null; then install_venv_package "$py"; fi
    "$py" -m venv .venv
}

install_venv_package() {  # Debian and Ubuntu keep ensurepip in a package of its own
    package=$("$1" -c 'import sys; print(f"python3.{sys.version_info.minor}-venv")')
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 ||
        die "$1 has no venv module. As root: apt-get install -y python3-venv   (or install uv)"
    say "installing $package"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$package" >/dev/null
}

install() {
    if command -v uv >/dev/null 2>&1; then uv pip install -q -p .venv/bin/python "$@"; return; fi
    [ -x .venv/bin/pip ] || die ".venv was made by uv and has no pip, and uv is not here now. Remove .venv and try again."
    .venv/bin/pip install -q --disable-pip-version-check "$@"
}

have() { .venv/bin/python -c 'import importlib.metadata as m, sys; m.version(sys.argv[1])' "$1" 2>/dev/null; }

if ! done_already; then
    make_venv
    say "installing $lock (a minute or two the first time)"
    install --no-deps --require-hashes -r "$lock"
    install --no-deps --no-build-isolation -e .
    mark "$lock" >".venv/.made-$level"
fi
if [ -n "${TORCH:-}" ] && ! have torch; then
    say "installing $TORCH for the tests (by pip)"
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    .venv/bin/python -m pip install -q --disable-pip-version-check "$TORCH"
fi
if [ -n "${RAY:-}" ] && [ "$(cat .venv-ray/.made 2>/dev/null)" != "$(mark requirements-ray.lock)" ]; then
    say "making .venv-ray for the tests that drive a real Ray"
    if command -v uv >/dev/null 2>&1; then
        uv venv -q --clear --python .venv/bin/python .venv-ray
        uv pip install -q -p .venv-ray/bin/python --no-deps --require-hashes -r requirements-ray.lock
    else
        .venv/bin/python -m venv --clear .venv-ray
        .venv-ray/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-ray.lock
    fi
    mark requirements-ray.lock >.venv-ray/.made
fi

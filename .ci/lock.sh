#!/bin/sh
# Writes requirements.lock and requirements-dev.lock anew: versions with hashes, no address of any index. Needs uv.
set -eu
cd "$(dirname "$0")/.."
compile() {
    out=$1
    shift
    uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
        --custom-compile-command "make lock" "$@" pyproject.toml .ci/build-requirements.in -o "$out"
}
compile requirements-dev.lock --extra dev
compile requirements.lock
uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
    --custom-compile-command "make lock" .ci/ray-requirements.in -o requirements-ray.lock

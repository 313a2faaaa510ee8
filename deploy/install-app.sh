#!/usr/bin/env bash
# Installs the application's locked requirements and the console script `olmweb` into a new virtual
# environment. The Dockerfile and the checks run these same steps. Usage: deploy/install-app.sh VENV
# The script runs the code of this folder: the environment is used beside it, at the same path.
set -euo pipefail
venv=$1
cd "$(dirname "$0")/.."
python3 -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --no-cache-dir --require-hashes -r requirements/app.txt -r requirements/build.txt
"${pip[@]}" install --no-deps --no-build-isolation --editable .
"${pip[@]}" uninstall --yes setuptools  # nothing needs it from here on
"$venv/bin/python" -m compileall -q olmweb catalogs installs

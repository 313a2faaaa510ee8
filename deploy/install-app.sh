#!/usr/bin/env bash
# Installs the application's locked requirements into a new virtual environment and collects the
# static files. The Dockerfile and the checks run these same steps. Usage: deploy/install-app.sh VENV
set -euo pipefail
venv=$1
cd "$(dirname "$0")/.."
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --disable-pip-version-check --quiet --no-cache-dir \
  --require-hashes -r requirements/app.txt
"$venv/bin/python" -m compileall -q olmweb catalogs installs

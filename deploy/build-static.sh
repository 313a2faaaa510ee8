#!/usr/bin/env bash
# Builds static/dist from locked npm packages. Usage: deploy/build-static.sh VENV
# npm comes from PATH; where there is none, from a locked wheel installed into VENV.
set -euo pipefail
venv=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
if ! command -v npm >/dev/null; then
  "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --require-hashes \
    -r requirements/node.txt
  export PATH="$venv/bin:$PATH"
fi
npm ci --no-audit --no-fund --loglevel=error
npm run --silent build

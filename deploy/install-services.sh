#!/usr/bin/env bash
# Installs what the whole test suite can use, from Debian's packages: PostgreSQL, Redis, Chromium,
# an image registry, promtool, zsh, fish. Does nothing where all are there.
set -euo pipefail
missing=()
compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v chromium >/dev/null || missing+=(chromium)
command -v docker-registry >/dev/null || missing+=(docker-registry)
command -v promtool >/dev/null || missing+=(prometheus)
command -v zsh >/dev/null || missing+=(zsh)
command -v fish >/dev/null || missing+=(fish)
command -v openssl >/dev/null || missing+=(openssl)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -eq 0 ]; then
  echo "PostgreSQL, Redis, Chromium, docker-registry, promtool, zsh and fish are installed."
  exit 0
fi
echo "Installing ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  echo "This needs root: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

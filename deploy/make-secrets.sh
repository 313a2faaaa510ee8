#!/usr/bin/env bash
# Makes the files of deploy/secrets that compose.yaml mounts and keeps those that exist: random keys
# and passwords, and empty files for secrets that are optional. Run it as root, so that each file
# belongs to the user that reads it. Usage: sudo deploy/make-secrets.sh [KUBECONFIG]
set -euo pipefail
kubeconfig=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
umask 077
mkdir -p secrets ca
chmod 755 secrets ca
cd secrets
app=10001    # the user of OLM Web's containers
servers=999  # the user of the PostgreSQL and Redis containers

random() { head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'; }
make() { if [ -e "$1" ]; then cat >/dev/null; else cat >"$1"; fi; }

random 40 | make secret-key
random 24 | make postgres-password
printf 'postgres://olmweb:%s@postgres/olmweb' "$(cat postgres-password)" | make database-url
printf 'requirepass %s\n' "$(random 24)" | make redis.conf
printf 'redis://:%s@redis:6379/0' "$(sed -n 's/^requirepass //p' redis.conf)" | make redis-url
printf '{"auths": {}}\n' | make registry-auth.json
for name in oidc-client-secret metrics-token webhook-url; do make "$name" </dev/null; done
if [ -n "$kubeconfig" ]; then cat "$kubeconfig" >kubeconfig; fi
if [ "$(id -u)" -eq 0 ]; then
  chown "$app" ./*
  chown "$servers" postgres-password redis.conf
else
  echo "Run this as root, or give the files to the users of the containers:" >&2
  echo "  sudo chown $app $PWD/*; sudo chown $servers $PWD/postgres-password $PWD/redis.conf" >&2
fi
if [ ! -e kubeconfig ]; then
  echo "There is no $PWD/kubeconfig: run this again with the path of the kubeconfig." >&2
  exit 1
fi

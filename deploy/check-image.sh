#!/usr/bin/env bash
# Runs the image's own install steps in a clean folder, without an engine: the same scripts, files
# and commands as the Dockerfile, then the start of the web server and its health check.
set -euo pipefail
cd "$(dirname "$0")/.."
source_tree=$(pwd)
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
git ls-files -z | grep -zvE '^(tests|docs)/' | xargs -0 cp --parents -t "$work"
cd "$work"
echo "static assets"
PATH=$PATH deploy/build-static.sh "$source_tree/.venv" >/dev/null
echo "Python environment"
# A Python that other users may run, too, is needed below.
PATH=/usr/bin:$PATH deploy/install-app.sh "$work/venv"
echo "collectstatic, check --deploy"
export PATH="$work/venv/bin:$PATH" REDIS_URL=redis://127.0.0.1:1 OLMWEB_HOSTS=olmweb.example \
  OLMWEB_SECRET_KEY="$(head -c 40 /dev/urandom | base64 | tr -d '\n')" OLMWEB_DATA_DIR="$work/.local" \
  DATABASE_URL="sqlite:///$work/check.sqlite3" OLMWEB_LOG=json
rm -rf olmweb/sandbox
(cd / && olmweb version && olmweb explain 'AllNamespaces install mode must be enabled' >/dev/null)
python manage.py collectstatic --noinput --verbosity 0
python manage.py check --deploy --fail-level WARNING
python manage.py migrate --verbosity 0
echo "web server"
# As in the image: the data folder is empty, and the pages' static files come from the image itself.
export OLMWEB_DATA_DIR="$work/data" OLMWEB_HOSTS=127.0.0.1 OLMWEB_HTTPS=false
port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# OpenShift runs the image as any user of group 0, whom no file of the image belongs to.
as_any_user=()
if [ "$(id -u)" -eq 0 ]; then
  chmod 755 "$work"
  install -d -m 770 -g 0 "$work/data"
  chown 10001 "$work/data"
  chgrp 0 "$work"/check.sqlite3*
  chmod g=u "$work"/check.sqlite3*
  as_any_user=(setpriv --reuid=1000660000 --regid=0 --clear-groups --inh-caps=-all)
fi
HOME=$work/data TMPDIR=$work/data \
  "${as_any_user[@]}" python manage.py web --host 127.0.0.1 --port "$port" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
  if python -m olmweb.runtime.probe "http://127.0.0.1:$port/livez" 2>/dev/null; then
    python -m olmweb.runtime.probe "http://127.0.0.1:$port/login/" || { cat "$work/log" >&2; exit 1; }
    echo "the image's steps pass, /livez and the sign-in page answer"
    exit 0
  fi
  sleep 0.1
done
cat "$work/log" >&2
echo "the web server did not answer /livez within 30 s" >&2
exit 1

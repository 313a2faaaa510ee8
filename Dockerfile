# Three stages: static assets, Python environment, and a small runtime that runs as nobody's root.
FROM docker.io/library/node:22-bookworm-slim AS static
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund --loglevel=error
COPY static static
COPY templates templates
COPY catalogs catalogs
COPY installs installs
COPY olmweb olmweb
RUN npm run --silent build

FROM docker.io/library/python:3.11-slim-bookworm AS python
WORKDIR /app
COPY requirements/app.txt requirements/build.txt requirements/
COPY pyproject.toml README.md ./
COPY deploy/install-app.sh deploy/install-app.sh
COPY olmweb olmweb
COPY catalogs catalogs
COPY installs installs
RUN deploy/install-app.sh /venv

FROM docker.io/library/python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="OLM Web" \
      org.opencontainers.image.description="Web dashboard for operator catalogs and installed operators" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
# Any user id of group 0 may run it (OpenShift assigns one): /data belongs to the group, and nothing
# else is written but /tmp.
RUN useradd --system --uid 10001 --gid 0 --home-dir /data --create-home olmweb && chmod 0770 /data
WORKDIR /app
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/data OLMWEB_DATA_DIR=/data
COPY --from=python /venv /venv
COPY manage.py ./
COPY olmweb olmweb
COPY catalogs catalogs
COPY installs installs
COPY templates templates
COPY --from=static /app/static/dist static/dist
RUN REDIS_URL=redis://build OLMWEB_SECRET_KEY=build-only OLMWEB_HOSTS=build \
    python manage.py collectstatic --noinput --verbosity 0 && rm -rf /app/olmweb/sandbox
USER 10001:0
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-m", "olmweb.runtime.probe", "http://127.0.0.1:8000/livez"]
CMD ["python", "manage.py", "web"]

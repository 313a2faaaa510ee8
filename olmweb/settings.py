"""Django settings. The environment is read only here, through olmweb.runtime.env."""

import ipaddress
import os
import re
import sys
from datetime import timedelta
from pathlib import Path

import dj_database_url

from installs.notifications import formats
from olmweb import __version__
from olmweb.accounts.oidc_settings import read_oidc
from olmweb.kube.fields import https_address
from olmweb.runtime.env import Env, EnvError
from olmweb.runtime.postgres import connection_options

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = __version__

env = Env(os.environ, "OLMWEB_", ignore="OLMWEB_TEST_")
env.reserve("OLMWEB_SERVER", "OLMWEB_TOKEN")  # of the console script, which needs no setting

REDIS_URL = env.redis_url("REDIS_URL")
EMBEDDED = not REDIS_URL
DEBUG = env.boolean("OLMWEB_DEBUG", default=False)
DATA_DIR = Path(env.text("OLMWEB_DATA_DIR", str(BASE_DIR / ".local")))
SECRET_KEY = env.text("OLMWEB_SECRET_KEY")
ALLOWED_HOSTS = env.listing("OLMWEB_HOSTS", "127.0.0.1,localhost,[::1]" if EMBEDDED else "")
PUBLIC_READ = env.boolean("OLMWEB_PUBLIC_READ", default=False)
WRITE_AS = env.choice("OLMWEB_WRITE_AS", "user", ("user", "service-account"))
CLUSTERS = env.listing("OLMWEB_CLUSTERS")
DEMO_LOGINS: tuple[tuple[str, str], ...] = ()  # (name, password); filled by `serve --demo`
KUBECONFIG = env.text("KUBECONFIG")
CONSOLES = {  # cluster name -> address of its OpenShift Console
    name.strip(): address.strip().rstrip("/")
    for name, _, address in (entry.partition("=") for entry in env.listing("OLMWEB_CONSOLES"))
}
CATALOG_POLL = env.seconds("OLMWEB_CATALOG_POLL", "10m")
STATE_POLL = env.seconds("OLMWEB_STATE_POLL", "10s")
RETENTION_DAYS = env.integer("OLMWEB_RETENTION_DAYS", 90, minimum=1)
API_RATE = env.integer("OLMWEB_API_RATE", 6000)  # requests of a token in a minute; 0: no limit
CORS_ALLOWED_ORIGINS = env.listing("OLMWEB_CORS_ORIGINS")
EVENT_RETENTION_DAYS = env.integer("OLMWEB_EVENT_RETENTION_DAYS", 7, minimum=1)
AUDIT_RETENTION_DAYS = env.integer("OLMWEB_AUDIT_RETENTION_DAYS", 365, minimum=0)  # 0: for ever
WEBHOOK_URL = env.text("OLMWEB_WEBHOOK_URL")
WEBHOOK_FORMAT = env.choice("OLMWEB_WEBHOOK_FORMAT", "json", tuple(formats.FORMATS))
PUBLIC_URL = env.text("OLMWEB_PUBLIC_URL").rstrip("/")
METRICS_TOKEN = env.text("OLMWEB_METRICS_TOKEN")
LOG_FORMAT = env.choice("OLMWEB_LOG", "text" if EMBEDDED else "json", ("text", "json"))
ADMIN_PASSWORD = env.text("OLMWEB_ADMIN_PASSWORD")
OIDC = read_oidc(env)
LOCAL_SIGN_IN = env.boolean("OLMWEB_LOCAL_SIGN_IN", default=True)
OIDC_MAX_AGE = env.seconds("OLMWEB_OIDC_MAX_AGE", "30d")
HTTPS = env.boolean("OLMWEB_HTTPS", default=not EMBEDDED)
# From these addresses X-Forwarded-For and X-Forwarded-Proto count. Some clusters take 100.64.0.0/10
# for pods and nodes.
_PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,::1/128,fc00::/7"
TRUSTED_PROXIES = env.listing("OLMWEB_TRUSTED_PROXIES", "" if EMBEDDED else _PRIVATE)
WEB_THREADS = env.integer("OLMWEB_WEB_THREADS", 8, minimum=1)
WEB_PROCESSES = env.integer("OLMWEB_WEB_PROCESSES", 2, minimum=1)
INSECURE_REGISTRIES = frozenset(env.listing("OLMWEB_INSECURE_REGISTRIES"))
REGISTRIES_CONF = env.text("OLMWEB_REGISTRIES_CONF")  # path of a registries.conf, version 2
REGISTRY_PULLS = env.integer("OLMWEB_REGISTRY_PULLS", 4, minimum=1)
REGISTRY_RATE = env.integer("OLMWEB_REGISTRY_RATE", 30, minimum=1)
INSPECT_CATALOGS = env.boolean("OLMWEB_INSPECT_CATALOGS", default=False)
INSPECTION_BUDGET = env.size("OLMWEB_INSPECTION_BUDGET", "2GiB")
GRPC_HOSTS = frozenset(env.listing("OLMWEB_GRPC_HOSTS"))
SPOOL_LIMIT = env.size("OLMWEB_SPOOL_LIMIT", "4GiB")
CATALOGD_CA = env.text("OLMWEB_CATALOGD_CA")  # path of PEM certificates
# Credentials of podman or docker; the file need not exist.
_LOGINS = env.text("REGISTRY_AUTH_FILE")
_DOCKER = env.text("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111 - "~" stays
REGISTRY_CREDENTIALS = Path(_LOGINS) if _LOGINS else Path(_DOCKER, "config.json")

if not EMBEDDED and not SECRET_KEY:
    env.problem(
        "OLMWEB_SECRET_KEY is not set; with REDIS_URL set this is a production start, "
        "which needs a secret of 50 or more random characters."
    )
if not EMBEDDED and not ALLOWED_HOSTS:
    env.problem("OLMWEB_HOSTS is not set; name the host names that users open, comma-separated.")
for name, address in (("OLMWEB_WEBHOOK_URL", WEBHOOK_URL), ("OLMWEB_PUBLIC_URL", PUBLIC_URL)):
    if address and not address.startswith(("http://", "https://")):
        env.problem(f"{name} is no address of a web server; write https://host/path.")
for name, address in CONSOLES.items():
    if not name or not https_address(address):
        env.problem(
            f'OLMWEB_CONSOLES has "{name}={address}"; write name=https://console.example.com, '
            "comma-separated."
        )
for name in CORS_ALLOWED_ORIGINS:
    if not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+", name):
        env.problem(
            f'OLMWEB_CORS_ORIGINS names "{name}"; write https://host or https://host:port, '
            "comma-separated."
        )
if not LOCAL_SIGN_IN and not OIDC:
    env.problem(
        "OLMWEB_LOCAL_SIGN_IN is false but OLMWEB_OIDC_ISSUER is not set, so nobody could sign in."
    )
if REGISTRIES_CONF and not Path(REGISTRIES_CONF).is_file():
    env.problem(f"OLMWEB_REGISTRIES_CONF names {REGISTRIES_CONF}, which is no file.")
if METRICS_TOKEN and len(METRICS_TOKEN) < 16:
    env.problem("OLMWEB_METRICS_TOKEN is shorter than 16 characters; use random ones.")
for name in sorted(INSECURE_REGISTRIES):
    if not re.fullmatch(r"[A-Za-z0-9.\-\[\]:]+:\d{1,5}", name):
        env.problem(f'OLMWEB_INSECURE_REGISTRIES names "{name}"; write host:port, comma-separated.')
for name in sorted(GRPC_HOSTS):
    if not re.fullmatch(r"[A-Za-z0-9.\-\[\]:]+", name):
        env.problem(f'OLMWEB_GRPC_HOSTS names "{name}"; write host or host:port, comma-separated.')
for name in TRUSTED_PROXIES:
    try:
        ipaddress.ip_network(name)
    except ValueError:
        env.problem(
            f'OLMWEB_TRUSTED_PROXIES names "{name}"; write addresses or networks such as '
            "10.0.0.0/8, comma-separated."
        )
DATABASE_URL = env.text("DATABASE_URL", f"sqlite:///{DATA_DIR / 'olmweb.sqlite3'}")
try:
    DATABASE = dj_database_url.parse(DATABASE_URL, conn_max_age=60)
except ValueError:  # its text may quote the address, hence the password
    env.problem("DATABASE_URL is no database's address; write postgres://user:password@host/name.")
try:
    # Production stores nothing there: its file system may be read-only.
    if not SECRET_KEY or DATABASE_URL.startswith("sqlite"):
        DATA_DIR.mkdir(parents=True, exist_ok=True)
except OSError as error:
    env.problem(f"OLMWEB_DATA_DIR names {DATA_DIR}, which can't be used: {error.strerror}.")
try:
    env.finish()
except EnvError as error:
    sys.exit(f"OLM Web can't start:\n{error}")

if not SECRET_KEY:
    # Embedded on one machine: sessions survive a restart because the key is kept beside the data.
    key_file = DATA_DIR / "secret-key"
    if not key_file.exists():
        key_file.touch(mode=0o600)
        key_file.write_text(os.urandom(40).hex(), encoding="ascii")
    SECRET_KEY = key_file.read_text(encoding="ascii")

INSTALLED_APPS = [
    "olmweb.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "template_partials",
    "ninja",
    "csp",
    "axes",
    "corsheaders",
    "olmweb.apps.OlmwebConfig",
    "catalogs",
    "installs",
]
MIDDLEWARE = [
    "csp.middleware.CSPMiddleware",  # first: redirects, probes and static files get the policy too
    "olmweb.serving.health.ProbeMiddleware",
    "olmweb.serving.http_metrics.RequestMetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "olmweb.runtime.logs.RequestLogMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "olmweb.accounts.audit.AuditMiddleware",
    "olmweb.accounts.roles.ReadAccessMiddleware",
    "olmweb.web.preferences.TimeZoneMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "olmweb.errors.ErrorPageMiddleware",
    "axes.middleware.AxesMiddleware",
]
# Pages of other origins may use the REST API with a token; cookies of the browser are not sent.
CORS_URLS_REGEX = r"^/api/v1/"
CORS_ALLOW_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
CORS_ALLOW_HEADERS = (
    "accept", "authorization", "content-type", "idempotency-key", "if-none-match", "last-event-id",
)  # fmt: skip
CORS_EXPOSE_HEADERS = (
    "ETag", "Idempotency-Replayed", "Location", "RateLimit-Limit", "RateLimit-Remaining",
    "RateLimit-Reset", "Retry-After",
)  # fmt: skip
ROOT_URLCONF = "olmweb.urls"
ASGI_APPLICATION = "olmweb.asgi.application"
CACHED_LOADER = (
    "django.template.loaders.cached.Loader",
    ["olmweb.web.loader.Loader", "django.template.loaders.app_directories.Loader"],
)
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            # In this form template_partials leaves it as it is.
            "loaders": [("template_partials.loader.Loader", [CACHED_LOADER])],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "olmweb.web.context.shell",
                "olmweb.accounts.roles.role_context",
            ],
            "builtins": ["olmweb.templatetags.olmweb"],
        },
    }
]

DATABASES = {"default": DATABASE}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        " PRAGMA cache_size=-16000;",
    }
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["OPTIONS"] = connection_options(DATABASES["default"].get("OPTIONS", {}))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if EMBEDDED
    else {"BACKEND": "olmweb.runtime.cache.TolerantRedisCache", "LOCATION": REDIS_URL}
}

AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AUTHENTICATION_BACKENDS = [
    "olmweb.accounts.throttling.ThrottledSignIn",  # first: a locked account checks no password
    "olmweb.accounts.roles.AccountBackend",
]
if OIDC:
    AUTHENTICATION_BACKENDS.append("olmweb.accounts.oidc.OidcBackend")
    OIDC_RP_SCOPES = OIDC.scopes
OIDC_USE_PKCE = True
# Limits of failed sign-ins; olmweb.accounts.throttling has those of addresses and accounts.
AXES_HANDLER = "olmweb.accounts.throttling.FailedSignIns"
AXES_FAILURE_LIMIT = 5
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address", "username"]
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "olmweb.accounts.throttling.throttled_address"
AXES_LOCKOUT_CALLABLE = "olmweb.accounts.views.locked_out"
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # olmweb.admin has the one list of it that has rows
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "olmweb.formats"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "static" / "collected"  # part of the image, not of its data
if EMBEDDED:
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # files are found without collecting them
STATICFILES_DIRS = [path for path in [BASE_DIR / "static" / "dist"] if path.is_dir()]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if not EMBEDDED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = EMBEDDED

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_NAME = "olmweb_session"
CSRF_COOKIE_NAME = "olmweb_csrf"
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS] if HTTPS else []

# Longest any task may run (seconds). The broker gives a late-acknowledged task to a second worker
# after the visibility timeout, so that must be longer than every task.
TASK_TIME_LIMIT_MAX = 1800
CELERY_BROKER_URL = REDIS_URL or "memory://localhost/"
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 2 * TASK_TIME_LIMIT_MAX,
    # Seconds; a request must not wait for a Redis that is away. Workers poll for a second each.
    "socket_connect_timeout": 2,
    "socket_timeout": 3,
    "socket_keepalive": True,
    "max_retries": 1,  # of a connection; workers have their own loop for that
    "interval_start": 0,
    "interval_max": 0.2,
}
CELERY_TASK_PUBLISH_RETRY = False  # the client repeats a request by itself, on a new connection
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "sync"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_MAX_TASKS_PER_CHILD = 200
WORKER_STOP_SECONDS = 30  # that a worker waits for its tasks after SIGTERM
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker for as long as it takes
CELERY_TIMEZONE = "UTC"

SILENCED_SYSTEM_CHECKS = (
    [] if HTTPS else ["security.W004", "security.W008", "security.W012", "security.W016"]
)
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
LOGGING_CONFIG = None

from olmweb.runtime.logs import configure_logging  # noqa: E402 - needs LOG_FORMAT above

configure_logging(LOG_FORMAT)

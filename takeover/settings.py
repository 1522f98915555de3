"""Settings. Everything that differs between installations comes from the environment, by way of `environment.py`."""

from datetime import timedelta
from typing import Any

from csp.constants import NONE, SELF

from takeover import environment as env

BASE_DIR = env.BASE_DIR
DATA_DIR = env.DATA_DIR

SECRET_KEY = env.secret_key()
DEBUG = env.flag("DEBUG")
DEMO = env.flag("DEMO")  # the sign-in page names the demo accounts
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost 127.0.0.1 [::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "template_partials.apps.SimpleAppConfig",
    "runs",
    "takeover",
    "takeover.console",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "takeover.static_files.StaticFilesMiddleware",
    "takeover.edge.Edge",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "takeover.console.sign_in.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "takeover.console.zone.BrowserTimeZone",
]

ROOT_URLCONF = "takeover.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [("django.template.loaders.cached.Loader", ["django.template.loaders.filesystem.Loader"])],
                )
            ],
            "builtins": ["template_partials.templatetags.partials", "takeover.templatetags.icons"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "takeover.console.desk.on_every_page",
            ],
        },
    }
]

DATABASES: dict[str, Any] = {
    "default": {
        **env.database(
            env.text("DATABASE_URL", "postgresql://takeover@localhost/takeover"),
            limits=env.answers_within(env.integer("DATABASE_ANSWERS_WITHIN", 30, low=1)),
        ),
        "CONN_HEALTH_CHECKS": True,
    }
}
if env.flag("WORKER"):
    # A worker keeps its connections for its lifetime; Celery's fixup would close a pool at every task.
    DATABASES["default"]["CONN_MAX_AGE"] = None
    DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 0  # the engine's one statement is planned once
else:
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 16, "timeout": 10}
if owner := env.text("OWNER_DATABASE_URL"):
    # Of `manage.py migrate` alone: the role that owns the tables (docs/database.md).
    DATABASES["owner"] = env.database(owner, "OWNER_DATABASE_URL")

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.text("REDIS_URL", "redis://localhost:6379/0")

AUTHENTICATION_BACKENDS = ["takeover.console.people.People"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("MinimumLengthValidator", {"min_length": 12}),
        ("UserAttributeSimilarityValidator", {}),
        ("CommonPasswordValidator", {}),
    )
]
CSRF_FAILURE_VIEW = "takeover.console.sign_in.forged"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "queue"
LOGOUT_REDIRECT_URL = "sign-in"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_COOKIE_NAME = "language"
LANGUAGE_COOKIE_AGE = int(timedelta(days=365).total_seconds())
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SECURE = False
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {"staticfiles": {"BACKEND": "takeover.static_files.StaticFilesStorage"}}

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
if env.flag("HTTPS"):
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = True
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds())

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

# Work: the broker carries wake-ups only; a lost, repeated or late message changes nothing but seconds.
CELERY_BROKER_URL = env.broker(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "global_keyprefix": "takeover:",
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
CELERY_DB_REUSE_MAX = 1000  # tasks; without it Celery reconnects to the database for every one
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = env.flag("CELERY_ACKS_LATE", True)
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = env.integer("WORKER_STOP_WITHIN", 30, low=1)  # seconds, then it is ended
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

# The engine (runs.engine). Seconds.
ENGINE_LEASE = env.integer("ENGINE_LEASE", 30, low=2)
ENGINE_SLICE = env.integer("ENGINE_SLICE", 5)
ENGINE_SWEEP = env.integer("ENGINE_SWEEP", 2, low=1)
ENGINE_MAX_DISPATCHES = env.integer("ENGINE_MAX_DISPATCHES", 5, low=1)

# What shows that a worker still hears (runs.engine.liveness). Seconds.
WORKER_CANARY = env.integer("WORKER_CANARY", 10, low=1)
WORKER_DEAF_AFTER = env.integer("WORKER_DEAF_AFTER", 90, low=2)  # the client needs up to 51 to find a dead connection
WORKER_STUCK_AFTER = env.integer("WORKER_STUCK_AFTER", 600, low=2)  # longer than a slice and any one call

# Multiplies every wait of the engine (retries, look-ups, grace). Below 1 only in trials: it shortens margins too.
ENGINE_PACE = env.number("ENGINE_PACE", 1.0)

# The sealed record (docs/record.md). The keys are asked for when needed, so that only the sweeper makes one.
AUDIT_KEYS = env.audit_keys
AUDIT_WEBHOOK = env.web_address("AUDIT_WEBHOOK")

# How long texts of the record, and requests and answers of steps, are kept once their run has ended. None: for good.
TEXTS_KEPT = env.days("TEXTS_KEPT_DAYS", 0)
PAYLOADS_KEPT = env.days("PAYLOADS_KEPT_DAYS", 90)

# Services the shipped workflows act on, known by HTTP only.
BACK_OFFICE_URL = env.web_address("BACK_OFFICE_URL", "http://127.0.0.1:8801")
SERVICES: dict[str, Any] = {
    "back_office": {
        "url": BACK_OFFICE_URL,
        "token": env.credential("BACK_OFFICE_TOKEN", "demo-key"),
        "callback_secrets": env.webhook_secrets("BACK_OFFICE_CALLBACK_SECRETS"),  # none: it does not call back
    },
    "documents": {"folder": env.text("DOCUMENTS_FOLDER", str(DATA_DIR / "documents"))},
}
# Models that may drive a run, each there once its key is (docs/models.md): address, model, and the name of the limit on
# an answer, where the environment says nothing else.
MODELS: dict[str, Any] = {}
for _service, _address, _model, _limit in (
    ("anthropic", "https://api.anthropic.com", "claude-sonnet-5", "max_tokens"),
    ("openai", "https://api.openai.com/v1", "gpt-5.4-mini", "max_completion_tokens"),
):
    _name = _service.upper()
    if _key := env.credential(f"{_name}_API_KEY"):
        SERVICES[_service] = {"url": env.web_address(f"{_name}_BASE_URL", _address), "token": _key}
        MODELS[_service] = {
            "name": env.text(f"{_name}_MODEL", _model),
            "most_output": env.integer(f"{_name}_MOST_OUTPUT", 4096, low=1),
            "prices": env.prices(f"{_name}_PRICES"),
            "limit_name": env.text(f"{_name}_LIMIT_NAME", _limit),
        }

# Services that the tools of your own workflows call, and which workflows there are (docs/writing-a-workflow.md).
_variables_of_others = ("anthropic", "openai", "database", "owner_database", "redis", "site")
SERVICES |= env.services("SERVICES", known=(*SERVICES, *_variables_of_others))
SHIPPED = [
    "runs.workflows.refund_request",
    "runs.workflows.refund_payment",
    "runs.workflows.workshop_booking",
    "runs.workflows.booking_cancellation",
    "runs.workflows.market_scan",
    "runs.workflows.document_digest",
    "runs.workflows.research_report",
]
WORKFLOWS = env.modules("WORKFLOWS", SHIPPED)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "filters": {"no_trace_of_refusals": {"()": "takeover.edge.NoTraceOfRefusals"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_trace_of_refusals"]}
    },
    "loggers": {
        "httpx2": {"level": "WARNING"},  # a line a request, with its address
        "anthropic": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        # Two lines for every wake-up say nothing that the runs' own record does not.
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
}

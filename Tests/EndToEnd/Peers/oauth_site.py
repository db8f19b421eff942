"""oauth_site.py DIRECTORY LIFETIME: django-oauth-toolkit with rotating refresh tokens and reuse protection, and a
protected view, on a loopback port.

Prints one JSON line: the port, and the tokens of a user who has signed in. `/stats` tells what the token endpoint saw.
"""
import json
import logging
import sys
import threading

import django
from django.conf import settings

directory, lifetime = sys.argv[1], int(sys.argv[2])
settings.configure(
    SECRET_KEY="only for this test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"{directory}/site.sqlite",
            "OPTIONS": {"timeout": 20},
        }
    },
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    MIDDLEWARE=[],
    OAUTH2_PROVIDER={
        "ACCESS_TOKEN_EXPIRE_SECONDS": lifetime,
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "SCOPES": {"read": "read"},
    },
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
)
django.setup()
logging.disable(logging.WARNING)

from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.http import JsonResponse
from django.test import Client
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.decorators import protected_resource
from oauth2_provider.models import Application, RefreshToken
from oauth2_provider.views import TokenView
from waitress.server import create_server

seen = {"granted": 0, "refused": 0, "served": 0, "unauthorized": 0}
lock = threading.Lock()


def count(name):
    with lock:
        seen[name] += 1


@csrf_exempt
def token(request):
    answer = TokenView.as_view()(request)
    count("granted" if answer.status_code == 200 else "refused")
    return answer


@csrf_exempt
@protected_resource(scopes=["read"])
def served(request):
    count("served")
    return JsonResponse({"user": request.resource_owner.username, "method": request.method})


@csrf_exempt
def me(request):
    """A missing or stale token is 401, with the challenge that RFC 6750 asks for."""
    answer = served(request)
    if answer.status_code == 403:
        count("unauthorized")
        answer = JsonResponse({"error": "invalid_token"}, status=401)
        answer["WWW-Authenticate"] = 'Bearer error="invalid_token"'
    return answer


def stats(request):
    # A family is revoked as a whole when a spent token comes back: then none is left.
    live = RefreshToken.objects.filter(revoked__isnull=True).count()
    return JsonResponse({**seen, "live_refresh_tokens": live})


urlpatterns = [path("o/token/", token), path("api/me", me), path("stats", stats)]

call_command("migrate", verbosity=0)
user = User.objects.create_user("ada", password="enchantress")
Application.objects.create(
    name="bearerd", user=user, client_id="bearerd", client_secret="not-so-secret", hash_client_secret=False,
    client_type=Application.CLIENT_CONFIDENTIAL, authorization_grant_type=Application.GRANT_PASSWORD,
)
signed_in = Client().post(
    "/o/token/",
    {
        "grant_type": "password", "username": "ada", "password": "enchantress", "scope": "read",
        "client_id": "bearerd", "client_secret": "not-so-secret",
    },
)
assert signed_in.status_code == 200, signed_in.content
seen["granted"] = 0
server = create_server(WSGIHandler(), host="127.0.0.1", port=0, threads=4)
print(json.dumps({"port": int(server.effective_port), "tokens": signed_in.json()}), flush=True)
server.run()

"""Who may read: everybody with OLMWEB_PUBLIC_READ, else signed-in people only."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse

# These answer without a session: sign-in, assets; API and metrics check their own tokens.
OPEN_PREFIXES = ("/metrics", "/login/", "/static/", "/api/")


class ReadAccessMiddleware:
    """Sends anonymous visitors to the sign-in page unless reading is public."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if (
            request.user.is_authenticated
            or settings.PUBLIC_READ
            or request.path.startswith(OPEN_PREFIXES)
        ):
            return self.get_response(request)
        return redirect_to_login(request.get_full_path())

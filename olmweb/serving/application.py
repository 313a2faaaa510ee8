"""The ASGI application: Django in a pool of threads."""

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from olmweb.serving.bridge import Receive, Scope, Send, ThreadedWsgi


class Application:
    """Answers HTTP requests; the lifespan of the server starts and ends what they share."""

    def __init__(self, django: ThreadedWsgi) -> None:
        self._django = django

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._django(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                self._django.close()
                return


def make_application() -> Application:
    """Django with the settings' number of threads. The apps must be loaded."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return Application(ThreadedWsgi(WSGIHandler(), settings.WEB_THREADS, limit))

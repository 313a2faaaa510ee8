"""Errors of requests to a cluster, each with a sentence for a person. Pure.

    KubeError
    ├── ConfigError            the kubeconfig can't be used
    ├── Unreachable            no answer: DNS, connection, TLS, timeout, cut
    ├── Refused                an answer of 4xx
    │   ├── Unauthorized       401
    │   ├── Forbidden          403
    │   ├── NotFound           404
    │   ├── MethodNotAllowed   405
    │   ├── Conflict           409
    │   ├── Gone               410
    │   ├── UnsupportedMediaType 415
    │   ├── Invalid            422
    │   └── TooMany            429 (retry_after in seconds)
    ├── Broken                 5xx, a redirect, or an answer that is not the JSON it should be
    └── Internal               a defect of OLM Web in reading an answer

An answer's text is used only when it is a Kubernetes `Status`, and cut at 256 characters: any
other body may be a proxy's page. No error holds a request header, hence no credential.
"""

from typing import Any, ClassVar

import msgspec

TEXT_LIMIT = 256
RETRY_AFTER_MOST = 86_400  # seconds; more, or less than 0, is not what an API server means


class Cause(msgspec.Struct, frozen=True):
    """An item of a Status' `details.causes`: which field is wrong and why."""

    field: str = ""
    message: str = ""
    reason: str = ""


class KubeError(Exception):
    """Base class. `hint` says what to do about `message`; `reason` is the slug of the Status."""

    code: ClassVar[str] = "cluster-error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after


class Abandoned(Exception):
    """A request was not sent because this process is about to end. Says nothing of the cluster."""


class ConfigError(KubeError):
    code = "kubeconfig"


class Unreachable(KubeError):
    """`reason` is one of dns, refused, timeout, tls, cut, network."""

    code = "unreachable"
    retryable = True


class Refused(KubeError):
    """`verdict` completes "Cluster X ...", `advice` is the hint."""

    code = "refused"
    verdict: ClassVar[str] = ""
    advice: ClassVar[str] = ""


class Unauthorized(Refused):
    code = "unauthorized"
    verdict = "did not accept our credentials"
    advice = (
        "The token or certificate has expired or is wrong: sign in to the cluster again, or give "
        "OLM Web a kubeconfig that works with kubectl."
    )


class Forbidden(Refused):
    code = "forbidden"
    verdict = "does not allow this"
    advice = "Grant the account the missing right, for example with the ClusterRole in deploy/."


class NotFound(Refused):
    code = "not-found"
    verdict = "does not have this"
    advice = "It may have been deleted meanwhile."


class MethodNotAllowed(Refused):
    code = "method-not-allowed"
    verdict = "does not support this operation here"


class Conflict(Refused):
    code = "conflict"
    verdict = "reports a conflict"
    advice = "Somebody else changed or owns this object: look at it, then try again."


class Gone(Refused):
    code = "gone"
    retryable = True
    verdict = "no longer has that state"
    advice = "Start the list again."


class UnsupportedMediaType(Refused):
    code = "unsupported-media-type"
    verdict = "does not take this content type"
    advice = "Server-side apply needs Kubernetes 1.22 or newer."


class Invalid(Refused):
    code = "invalid"
    verdict = "does not accept this object"
    advice = "Correct the fields named and try again."


class TooMany(Refused):
    code = "too-many-requests"
    retryable = True
    verdict = "is busy and limits requests"
    advice = "OLM Web retries automatically."


class Broken(KubeError):
    code = "cluster-broken"
    retryable = True


class Internal(KubeError):
    code = "internal"
    retryable = True


_REFUSALS: dict[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooMany,
}


class _StatusDetails(msgspec.Struct):
    causes: list[Cause] | None = None
    retryAfterSeconds: int | None = None


class _ApiStatus(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _StatusDetails | None = None


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    """One line of printable characters, at most `limit` long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _read_status(body: bytes) -> _ApiStatus:
    """The body as a Status, or an empty one when it is anything else."""
    try:
        status = msgspec.json.decode(body, type=_ApiStatus)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _ApiStatus()
    return status if status.kind == "Status" else _ApiStatus()


def from_answer(
    cluster: str,
    method: str,
    path: str,
    status: int,
    body: bytes,
    retry_after: float | None = None,
) -> KubeError:
    """The error for an HTTP answer that is not a success; `retry_after` from its header."""
    answer = _read_status(body)
    details = answer.details or _StatusDetails()
    if retry_after is None and details.retryAfterSeconds is not None:
        retry_after = float(min(max(details.retryAfterSeconds, 0), RETRY_AFTER_MOST))
    common: dict[str, Any] = {
        "status": status,
        "reason": shorten(answer.reason),
        "causes": tuple(
            # "<nil>" stands for no field: further rules were not evaluated.
            Cause(
                "" if cause.field == "<nil>" else shorten(cause.field),
                shorten(cause.message),
                shorten(cause.reason),
            )
            for cause in details.causes or ()
        ),
        "retry_after": retry_after,
    }
    text = shorten(answer.message)
    if not 400 <= status < 500:
        return Broken(
            f"Cluster {cluster} answered {method} {path} with an error ({status})"
            + (f": {text}" if text else "."),
            hint="Look at the API server's health and log; OLM Web retries automatically.",
            **common,
        )
    kind = _REFUSALS.get(status, Refused)
    verdict = kind.verdict or f"refused the request ({status})"
    return kind(
        f"Cluster {cluster} {verdict}: {text or f'{method} {path} ended with {status}.'}",
        hint=kind.advice,
        **common,
    )

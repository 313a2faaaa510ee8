"""Why a server can't be reached: its name, its port or its certificate, with the remedy. Only
workers look, as they read a catalog; no page connects to anything."""

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from urllib3.exceptions import ConnectTimeoutError, HTTPError, ReadTimeoutError
from urllib3.util.ssl_match_hostname import CertificateError

PROBE_SECONDS = 3
_WORDS = 300  # characters of an error's own words


class Reason(StrEnum):
    """Why there is no answer, as stored with the outcome of an access method."""

    NAME = "name-not-resolved"
    REFUSED = "connection-refused"
    TIMEOUT = "timed-out"
    ROUTE = "no-route"
    AUTHORITY = "unknown-authority"
    EXPIRED = "certificate-expired"
    CERTIFICATE_NAME = "wrong-certificate-name"
    TLS = "tls-failed"
    NO_TLS = "no-tls"
    ONLY_TLS = "only-tls"
    NO_GRPC = "no-grpc"
    NO_ENDPOINT = "no-endpoint"  # says the API server, of a Service that it is to proxy to


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """`sentence` says what happened, without a full stop; `hint` what to check."""

    reason: Reason
    sentence: str
    hint: str


_HINTS = {
    Reason.NAME: "Check the host name and this server's DNS; the name of a Service is resolved "
    "inside its cluster only, and while the Service exists.",
    Reason.REFUSED: "Nothing listens on the port. Check the port and that the server runs, for a "
    "Service that it has an endpoint (kubectl get endpointslices).",
    Reason.TIMEOUT: "Check NetworkPolicies, firewalls and routes between this server and the port, "
    "and the load of the server.",
    Reason.ROUTE: "Check the routes and firewalls between this server and the network of the host.",
    Reason.AUTHORITY: "Let this server trust the authority that signed the certificate: for "
    "catalogd, OLMWEB_CATALOGD_CA names the file with its present authority.",
    Reason.EXPIRED: "Renew the certificate (cert-manager or the service CA renews that of "
    "catalogd), restart the server so that it uses the new one, and check the clocks.",
    Reason.CERTIFICATE_NAME: "Use a name that is in the certificate, or have a certificate issued "
    "for this name.",
    Reason.TLS: "Check the TLS versions and settings of the server, and whether it or a service "
    "mesh demands a client certificate.",
    Reason.NO_TLS: "Use the http address or the right port: what listens there speaks no TLS.",
    Reason.ONLY_TLS: "Serve the registry's gRPC without TLS on this port, as OLM speaks no TLS "
    "there; exempt the port where a service mesh demands mutual TLS.",
    Reason.NO_GRPC: "Check that the port is that of the registry (50051) and that the pod is "
    "ready: something listens there that does not speak gRPC.",
}
# X509_V_ERR_* of OpenSSL's x509_vfy.h.
_NOT_IN_TIME = (9, 10)
_WRONG_NAME = (62, 64)
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21, 24, 26)
# What OpenSSL says of an answer that is none of TLS.
_NO_TLS_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_ROUTES = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def failure_of(host: str, error: BaseException) -> ConnectFailure | None:
    """What an error of a request says about the connection; None if that is nothing. `host` is for
    the sentence. Looks through the errors that libraries wrap."""
    for cause in _causes(error):
        if (reason := _reason(cause)) is not None:
            return ConnectFailure(reason, _sentence(host, reason, cause), _HINTS[reason])
    return None


def probe_plaintext(host: str, port: int) -> ConnectFailure:
    """Why a port does not answer to gRPC without TLS, tried with plain connections.

    gRPC itself says only that a channel is not ready. Takes at most two times PROBE_SECONDS.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with closing(socket.create_connection((host, port), PROBE_SECONDS)) as connected:
            reason = Reason.ONLY_TLS if _speaks_tls(connected) else Reason.NO_GRPC
    except OSError as error:
        failure = failure_of(where, error)
        return failure or ConnectFailure(
            Reason.ROUTE, f"{where} can't be reached: {_words(error)}", _HINTS[Reason.ROUTE]
        )
    return ConnectFailure(reason, _SENTENCES[reason].format(host=where), _HINTS[reason])


def _speaks_tls(connected: socket.socket) -> bool:
    context = ssl.create_default_context()
    # Nothing is sent or trusted: only whether the answer is one of TLS counts.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connected.settimeout(PROBE_SECONDS)
    try:
        with context.wrap_socket(connected):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return str(error.reason) not in _NO_TLS_REASONS  # an alert, as for a missing certificate
    except OSError:
        return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those inside it, innermost first."""
    chain: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(chain) < 20:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and cause not in chain:
            chain.append(cause)
            waiting += [getattr(cause, "reason", None), cause.__context__, cause.__cause__]
            waiting += cause.args if isinstance(cause, HTTPError) else ()
    return reversed(chain)


def _reason(cause: BaseException) -> Reason | None:
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _NOT_IN_TIME:
            return Reason.EXPIRED
        if cause.verify_code in _WRONG_NAME:
            return Reason.CERTIFICATE_NAME
        return Reason.AUTHORITY if cause.verify_code in _UNKNOWN_AUTHORITY else Reason.TLS
    if isinstance(cause, CertificateError):
        return Reason.CERTIFICATE_NAME
    if isinstance(cause, ssl.SSLError):
        return Reason.NO_TLS if str(cause.reason) in _NO_TLS_REASONS else Reason.TLS
    if isinstance(cause, socket.gaierror):
        return Reason.NAME
    if isinstance(cause, ConnectionRefusedError):
        return Reason.REFUSED
    if isinstance(cause, TimeoutError | ConnectTimeoutError | ReadTimeoutError):
        return Reason.TIMEOUT
    if isinstance(cause, OSError) and cause.errno in _ROUTES:
        return Reason.ROUTE
    return None


_SENTENCES = {
    Reason.NAME: "{host} can't be found: {words}",
    Reason.REFUSED: "{host} does not answer: it refuses the connection",
    Reason.TIMEOUT: "{host} does not answer in time",
    Reason.ROUTE: "There is no route to {host}: {words}",
    Reason.AUTHORITY: "The certificate of {host} is signed by an authority that is not trusted: "
    "{words}",
    Reason.EXPIRED: "The certificate of {host} is not valid at this time: {words}",
    Reason.CERTIFICATE_NAME: "The certificate of {host} is for another name: {words}",
    Reason.TLS: "The TLS handshake with {host} failed: {words}",
    Reason.NO_TLS: "{host} answers without TLS",
    Reason.ONLY_TLS: "{host} answers with TLS, and a catalog is served without it",
    Reason.NO_GRPC: "{host} accepts connections and does not answer to gRPC",
}


def _sentence(host: str, reason: Reason, cause: BaseException) -> str:
    return _SENTENCES[reason].format(host=host, words=_words(cause))


def _words(cause: BaseException) -> str:
    """The error's own words: of a certificate what OpenSSL says, else those of the system."""
    own = getattr(cause, "verify_message", "") or getattr(cause, "strerror", "") or str(cause)
    return " ".join(str(own).split())[:_WORDS].rstrip(".")

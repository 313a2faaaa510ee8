"""`manage.py inspect_catalog`: inspects the bundle images that the verdicts on a catalog need."""

import json
import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.contents.bulk_inspection import BUDGET, Summary, inspect_images
from catalogs.lookup import get_named_catalog
from catalogs.sources.base import SourceError
from catalogs.verdicts.settle import images_to_inspect
from olmweb.errors import OlmwebError
from olmweb.templatetags.olmweb import filesize

LINE_SECONDS = 2.0  # between two lines of progress


class Command(BaseCommand):
    requires_system_checks = ()
    help = (
        "Inspect the bundle images that the verdicts on a catalog need: those of bundles that an "
        "install method would choose, then of channel heads. Images that are stored are not "
        "pulled again. Ends with 1 if an image could not be inspected."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME, or CLUSTER/NAME where several have that name")
        parser.add_argument(
            "--all-versions", action="store_true", help="then all other versions, newest first"
        )
        parser.add_argument("--limit", type=_count, help="at most so many images")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            catalog = get_named_catalog(options["name"])
        except OlmwebError as error:
            raise CommandError(f"{error.message} {error.hint}".rstrip(), returncode=2) from None
        images = images_to_inspect(catalog, all_versions=options["all_versions"])
        images = images[: options["limit"]]
        self._printed_at, self._latest = time.monotonic(), Summary(len(images))
        self._quiet = options["json"]
        began = time.monotonic()
        try:
            inspect_images(images, self._progress)
        except KeyboardInterrupt:
            self.stderr.write("Interrupted; the next run goes on from here.")
        except SourceError as error:
            raise CommandError(f"{error.message} {error.hint}", returncode=2) from None
        result = self._latest
        if result.stopped == BUDGET:
            self.stderr.write(
                "Stopped: the bytes of OLMWEB_INSPECTION_BUDGET are used for today (UTC); "
                "a run tomorrow goes on from here."
            )
        seconds = round(time.monotonic() - began, 1)
        if options["json"]:
            values = {
                "catalog": str(catalog),
                "wanted": result.wanted,
                "inspected": result.inspected,
                "reused": result.reused,
                "failed": dict(sorted(result.failed.items())),
                "bytes": result.bytes,
                "requests": result.requests,
                "seconds": seconds,
            }
            self.stdout.write(json.dumps(values))
        else:
            self.stdout.write(f"{catalog}: {_words(result)}, {seconds} s.")
        if result.failed or result.left:
            raise SystemExit(1)

    def _progress(self, result: Summary) -> None:
        self._latest, now = result, time.monotonic()
        if not self._quiet and now - self._printed_at >= LINE_SECONDS:
            self._printed_at = now
            self.stdout.write(_words(result))


def _words(result: Summary) -> str:
    """`12 of 40 images inspected, 3 stored before, 1 not-found, 24 left; 1.2 MiB, 60 requests`."""
    parts = [f"{result.inspected} of {result.wanted} images inspected"]
    if result.reused:
        parts.append(f"{result.reused} stored before")
    parts += [f"{count} {reason}" for reason, count in sorted(result.failed.items())]
    if result.left:
        parts.append(f"{result.left} left")
    size = filesize(result.bytes).replace("\xa0", " ")
    words = f"{', '.join(parts)}; {size}, {result.requests} requests"
    for registry, seconds in sorted(result.waiting.items()):
        words += f"; {registry} asks to wait, {seconds:,.0f} s left"
    return words


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)

"""`python -m olmweb.runtime.probe URL`: exit 0 when the URL answers 2xx. For container
healthchecks.
"""

import sys

import urllib3


def main(url: str) -> int:
    try:
        status = urllib3.request("GET", url, timeout=3, retries=False, redirect=False).status
    except urllib3.exceptions.HTTPError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0 if 200 <= status < 300 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

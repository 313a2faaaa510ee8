"""The parts of a message: prefixes of controllers, lists, and errors that one message joins.

Controllers join errors in these ways: Helm's update with " && " (helm.sh/helm pkg/kube/client.go);
what failed and the way back from it (helm-operator-plugins pkg/client/actionclient.go, and Helm's
pkg/action/upgrade.go); Kubernetes' aggregates as "[a, b]", in random order where they come from a
map (apimachinery pkg/util/errors/errors.go); errors.Join of Go with line ends; the cluster version
operator's as lines below "for multiple reasons:" (pkg/cvo of openshift/cluster-version-operator).
kube-scheduler lists how many nodes each reason excludes (pkg/scheduler/framework/types.go of
kubernetes).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

# Prefixes of controllers that don't add to the cause.
_PREFIXES = re.compile(
    r"Failed to unpack the \S{1,300} Bundle: "
    r'|source bundle content: (?!(?:create unpack pod: )?(?:pods? |admission webhook )"|gzip: '
    r"|context deadline exceeded \(Client\.Timeout"
    r"|(?:unexpected )?EOF$)"
    r"|convert registry\+v1 bundle to plain\+v0 bundle: "
    r"(?!supported install modes|file does not exist|error converting YAML)"
    r'|error for resolved bundle "[^"]{1,300}" with version "[^"]{1,300}": '
    r"|failed to resolve bundle(?:, retrying)?: "
    r"|terminal error: "
    r"|operation cannot proceed due to the following validation error\(s\): "
    r"|rendered manifests contain a (?:new )?resource that already exists\. "
    r'|[Uu]nable to continue with (?:install|update(?!: \w{1,100} "[^"]{1,300}" in namespace )): '
    r"|Cluster (?:cannot|should not) be upgraded between minor (?:or major )?versions for multiple "
    r"reasons:[\w,. -]{0,1000}\n"
)
# How OLM 0.18 to 0.20 names a catalog that newer releases name as NAMESPACE/NAME
# (operator-lifecycle-manager pkg/controller/registry/resolver/cache/cache.go).
_FORMER_CATALOG = re.compile(
    r"\berror using catalog (?P<name>[^\s()]{1,253}) \(in namespace (?P<namespace>[\w-]{1,63})\): "
)
# A structure that the API server writes before the rule that it breaks, as JSON or like
# `[]v1.EnvVar{v1.EnvVar{Name:"A"}}` (apimachinery pkg/util/validation/field/errors.go).
_DUMP = re.compile(
    r"(?<=Invalid value: )"
    r"(?:[&*]?(?:\[\]|map\[\w{1,40}\]){0,3}(?:[a-z]\w{0,60}\.)?[A-Za-z]\w{0,100}\{|[\[{])"
)
# A string may lack its end where the message was cut.
_IN_DUMP = re.compile(r'"(?:[^"\\]|\\[\s\S])*"?|[{}\[\]]')
_NESTING = {"{": 1, "[": 1, "}": -1, "]": -1}
_DUMP_LIMIT = 100  # characters of a dump that stays
_PARTS_LIMIT = 50
_CHECK_LIMIT = 2_000  # characters of the checks of one CRD
_AGGREGATE = re.compile(r"\[([\s\S]+)\]")
_CONSTRAINTS = re.compile(r"constraints not satisfiable: ([\s\S]+)")
# A quoted rule may have a comma itself, and an API is named with three parts.
_CONSTRAINT_ENDS = re.compile(r'"(?:[^"\\]|\\.){0,2000}"|(?P<end>, )(?!version: |kind: )')
# Constraints that exclude something, which others say who wants.
_SHARED = (" originate from package ", " provide ")
_EXCLUDING = (*_SHARED, " conflicts with ", " is deprecated")
_ORPHAN = " exists and is not referenced by a subscription"
_CHOICE = " requires at least one of "
_CRD_CHECKS = re.compile(r'([Vv]alidating upgrade for CRD "[^"]{1,300}"(?: failed)?: )([\s\S]+)')
# A line of two schemas that are compared.
_DIFFERENCE = re.compile(r"[-+&})]|\s{2}")
# The check of kapp that all lines after this one are of, up to the next.
_CHECK_OF_KAPP = re.compile(
    r"CustomResourceDefinition \S{1,300} failed upgrade safety validation\. "
    r'"[^"]{1,300}" validation failed: '
)
_REMOVALS = (
    *("existingFieldRemoval: ", " may not be removed"),
    "calculating schema diff for CRD version ",
)
_ERRORS_LIMIT = 20  # of a message that joins several
_ERROR_LIMIT = 1_000  # characters of one of them
# The attempt failed, and so did the way back; what made it fail comes first.
_WAY_BACK = re.compile(
    r"(?P<before>[\s\S]{0,300}?)\b(?i:rollback|uninstall) failed: "
    # There is nothing to fix about a version that never was.
    r"(?!release has no \d|no revision for release)(?P<second>[\s\S]{1,2000}?): "
    r"original (?:upgrade|install) error: (?P<first>[\s\S]+)"
)
_WAITED = re.compile(r"(?:timed out waiting for the condition|context deadline exceeded)\s*")
# That the way back took too long, or had no object to delete, is no reason of its own beside the
# error that made it necessary.
_NO_REASON = re.compile(
    _WAITED.pattern
    + r"|uninstallation completed with 1 error\(s\): object not found, skipping delete: no objects "
    r"visited\s*"
)
# How Helm joins errors of an uninstallation (pkg/action/uninstall.go).
_UNINSTALLATION = re.compile(
    r"uninstallation completed with (?P<count>\d{1,6}) error\(s\): (?P<errors>[\s\S]+)"
)
# Helm itself names both in the other order, with nothing between them but how the second begins.
_WAY_BACK_OF_HELM = re.compile(
    r"(?P<before>[\s\S]{0,300}?)\ban error occurred while [^.\n]{1,60}\. "
    r"original (?:upgrade|install|rollback) error: (?P<first>[\s\S]{1,4000}?): "
    r"(?P<second>(?:unable to (?:cleanup|build|decode|delete) |uninstall(?:: |ation )"
    r"|failed to |cannot patch |could not get |(?:query|update|create|release): |another operation "
    r"|(?:(?:pre|post)-\w{1,20} hooks failed: )?(?:timed out waiting for the condition$"
    r"|context deadline exceeded$|client rate limiter )|Unauthorized$)[\s\S]{0,2000})"
)
# What follows is not part of an expression that a rule quotes.
_HELM_ENDS = re.compile(
    r" && (?i:(?=cannot patch |failed to (?:replace object|create patch|refresh resource)))"
)
_AGGREGATE_IN = re.compile(
    r"(?P<before>(?:[^\[\]\n]{0,300}: )?)\[(?P<errors>[\s\S]+)\](?P<after>(?:: [^\[\]\n]{1,200})?)"
)
# Reasons of the scheduler for the nodes that do not take a pod, without what it says of preemption.
_EXCLUDED_NODES = re.compile(
    r"(?P<before>(?:(?:catalog )?pod [^:\s]{1,600}(?: container [^:\s]{1,300})?: )?"
    r"Unschedulable: 0/\d{1,6} nodes are available: )"
    r"(?P<reasons>[^\n]{1,4000}?)\.?"
    r"(?: (?:preemption: |no new claims |still not |not found\b)[^\n]{0,4000}?)?"
    r"(?P<after> \(\w{1,9} restarts\))?$"
)
_NEXT_EXCLUDED = re.compile(r", (?=\d{1,6} )")
# Of operator-controller's clusterobjectset_controller.go; an object has several lines.
_COLLISIONS = re.compile(r"revision object collisions in phase \d{1,9}\n")
# How errors begin that are not alike, and those of one field each.
_BEGINNINGS = (
    r"(?i:failed to |error |errors |unable to |could not |couldn't |cannot |can't |rpc error: "
    r"|admission webhook |internal error |operation cannot |unauthorized(?=$|[,:])|etcdserver: "
    r"|[\w./-]{1,300} \W{1,2}[^\"'`\s]{1,253}\W{1,2} "
    r"(?:is forbidden|is invalid|not found|already exists)"
    r"|[a-z0-9][-a-z0-9.]{0,252} is failing: "
    r"|found apiservice |(?:secret|deployment) [^\s,]{1,253} ca cert hash "
    r"|bundle(?:deployment)?\.spec\.[\w.\[\]]{1,100} is invalid: "
    r"|[a-z][\w.()\[\]/-]{0,300}: (?:required value|invalid value|unsupported value|forbidden"
    r"|duplicate value|too long|too many|not found)\b)"
)
# The line end before each rule that an account may not grant.
_RULES = re.compile(r"\n(?=\{APIGroups:)")
# Lines that tell more of the error before.
_GOES_ON = ("authorization evaluation error: ", "ensure CRDs are installed first")
_TWO_WORDS = re.compile(r"[A-Za-z]{2,40} [A-Za-z]{2,40} ")


def in_current_words(text: str) -> str:
    """The text with catalogs named as current releases of OLM name them."""
    return _FORMER_CATALOG.sub(r"error using catalogsource \g<namespace>/\g<name>: ", text)


def without_dumps(text: str) -> str:
    """The text with `{…}` in place of long structures, which come before the rule they break."""
    parts, start = [], 0
    while (match := _DUMP.search(text, start)) and (end := _end_of_dump(text, match.end())):
        if end - match.start() > _DUMP_LIMIT:
            parts += [text[start : match.start()], "{…}"]
        else:
            parts.append(text[start:end])
        start = end
    return "".join((*parts, text[start:]))


def _end_of_dump(text: str, start: int) -> int:
    """Where the bracket before `start` is closed; 0 if it is not, as in a text that was cut."""
    depth = 1
    for token in _IN_DUMP.finditer(text, start):
        depth += _NESTING.get(token[0], 0)
        if not depth:
            return token.end()
    return 0


def strip_prefixes(text: str) -> str:
    """The text without the prefixes of controllers."""
    while match := _PREFIXES.match(text):
        text = text[match.end() :]
    return text


def error_before_way_back(text: str) -> str:
    """The error that made a way back necessary, if the text names the error of that, too; empty if
    it does not, or if it was that the time was up."""
    way_back = _way_back(text)
    if way_back is None or _WAITED.match(way_back["first"]):
        return ""
    return way_back["before"] + way_back["first"]


def parts_of(text: str) -> list[str]:
    """What the entries look at one by one: the parts of a list, and the whole text."""
    # Errors of the way back are no reason for what made it necessary.
    way_back = _way_back(text)
    forth = way_back["before"] + way_back["first"] if way_back else text
    joined = _joined(forth)[:_PARTS_LIMIT] or ([forth] if way_back else [])
    if match := _AGGREGATE.fullmatch(text):
        # An error may have a comma itself: all but the last part, and all but the first.
        most = match[1].rpartition(", ")[0], match[1].partition(", ")[2]
        errors = (*joined, *match[1].split(", ")[:_PARTS_LIMIT], *filter(None, most))
        return [strip_prefixes(error) for error in errors] + [text]
    if joined and not way_back and _HELM_ENDS.search(text):
        return joined  # no entry is for several of Helm's errors together
    if joined:
        return [*joined, text]
    if match := _CONSTRAINTS.search(text):
        parts = _constraints(match[1])[:_PARTS_LIMIT]
        return [*(f"constraints not satisfiable: {part}" for part in parts), text]
    if match := _CRD_CHECKS.search(text):
        return _crd_checks(text[match.start() :]) or [text]
    return [text]


def _crd_checks(text: str) -> list[str]:
    """The errors of the checks of each CRD: the lines about fields that are gone together, as
    without a field others are not compared, and each of the others."""
    lines_of: dict[str, list[str]] = {}
    check = ""
    for line in _with_checks_of_kapp(text.splitlines()[:_PARTS_LIMIT]):
        lines = lines_of.get(check)
        if match := _CRD_CHECKS.match(line):
            check, first = match.groups()
            lines_of.setdefault(check, []).append(first.strip())
        elif lines and _DIFFERENCE.match(line):
            lines[-1] += f"\n{line}"
        else:
            lines_of.setdefault(check, []).append(line.strip())
    parts = []
    for check, lines in lines_of.items():
        removals = [line for line in lines if any(words in line for words in _REMOVALS)]
        errors = [line for line in lines if line not in removals]
        errors += ["\n".join(removals)] if removals else []
        parts += [check + error[:_CHECK_LIMIT] for error in errors]
    return parts


def _with_checks_of_kapp(lines: Iterable[str]) -> Iterator[str]:
    """The lines that are not empty; those that go on with a check of kapp begin with its words,
    except lines about fields that are gone, which stay together."""
    of_check = ""
    for line in filter(str.strip, lines):
        if match := _CHECK_OF_KAPP.search(line):
            of_check = match[0]
        elif _CRD_CHECKS.match(line):
            of_check = ""
        goes_on = of_check and not match and not _DIFFERENCE.match(line)
        if goes_on and not any(words in line for words in _REMOVALS):
            yield of_check + line.strip()
        else:
            yield line


def _constraints(text: str) -> list[str]:
    parts, start = [], 0
    for match in _CONSTRAINT_ENDS.finditer(text):
        if match["end"]:
            parts.append(text[start : match.start()])
            start = match.end()
    return _with_reasons(_with_choices([*parts, text[start:]]))


def _with_reasons(parts: Sequence[str]) -> list[str]:
    """The constraints; those that exclude something with what Subscriptions and bundles require,
    and before these a ClusterServiceVersion without Subscription with what it shares. Those that
    only announce another one come last."""
    needs = [part for part in parts if part.startswith("subscription ") and " requires " in part]
    needs += [part for part in parts if part.startswith("bundle ") and " requires an " in part]
    shared = [part for part in parts if any(words in part for words in _SHARED)]
    constraints = []
    for part in sorted(parts, key=lambda part: part.startswith("there can be only one ")):
        orphan = part.endswith(_ORPHAN)
        excludes = orphan or any(words in part for words in _EXCLUDING)
        reasons = [*(shared if orphan else ()), *(needs if excludes else ())]
        constraints.append(", ".join((part, *reasons)))
    return constraints


def _with_choices(parts: Sequence[str]) -> list[str]:
    """The constraints, with lists of ids, which have no space, joined again: those that "permits at
    most" and "requires at least one of" end with and those that "provide" or "originate from" begin
    with."""
    joined: list[str] = []
    ids: list[str] = []
    for part in parts:
        last = joined[-1] if joined else ""
        chooses = last.startswith("subscription ") and _CHOICE in last and " or " not in last
        if chooses or (" permits at most " in last and " " not in part):
            joined[-1] += f", {part}"
        elif " " not in part:
            ids.append(part)
        else:
            joined.append(", ".join((*ids, part)))
            ids = []
    return [*joined, *ids]


def errors_of(text: str) -> list[str]:
    """The errors that the message joins, each with the words before and after all of them; the
    text itself if it is one error."""
    text = strip_prefixes(text)
    errors = [error for part in _joined(text) or [text] for error in _lines(part)]
    return [error.strip()[:_ERROR_LIMIT] for error in errors[:_ERRORS_LIMIT]]


def _joined(text: str) -> list[str]:
    """The errors that are joined other than by line ends; none if there is one."""
    errors = [text]
    if match := _way_back(text):
        errors = [match["before"] + match["first"]]
        if match.re is not _WAY_BACK or not _NO_REASON.fullmatch(match["second"]):
            errors += [match["before"] + error for error in _uninstallation(match["second"])]
    errors = [part for error in errors for part in _excluded_nodes(error)]
    errors = [part for error in errors for part in _collisions(error) or _HELM_ENDS.split(error)]
    errors = [part for error in errors for part in _aggregated(error)]
    return errors if len(errors) > 1 else []


def _way_back(text: str) -> re.Match[str] | None:
    return _WAY_BACK.fullmatch(text) or _WAY_BACK_OF_HELM.fullmatch(text)


def _uninstallation(text: str) -> list[str]:
    """The errors with which Helm left objects of a release; the text itself if it is another one,
    or if an error has a semicolon of its own."""
    match = _UNINSTALLATION.fullmatch(text)
    errors = match["errors"].split("; ") if match else []
    return errors if match and len(errors) == int(match["count"]) else [text]


def _aggregated(text: str) -> list[str]:
    """The errors of an aggregate; what is between two commas may be part of one. What a check of a
    CRD tells of `oneOf`, `anyOf` or `allOf` of one property is one error, and so is what security
    context constraints refuse of one pod."""
    match = _AGGREGATE_IN.fullmatch(text)
    if match is None or match["before"].endswith(("Of: ", "security context constraint: ")):
        return [text]
    alike = _TWO_WORDS.match(match["errors"])
    beginnings = f"{re.escape(alike[0])}|{_BEGINNINGS}" if alike else _BEGINNINGS
    errors = re.split(f", (?={beginnings})", match["errors"], maxsplit=_ERRORS_LIMIT)
    return [match["before"] + error + match["after"] for error in errors]


def _excluded_nodes(text: str) -> list[str]:
    """Each reason for which the scheduler excludes nodes; the text itself if it lists none."""
    match = _EXCLUDED_NODES.match(text)
    reasons = _NEXT_EXCLUDED.split(match["reasons"]) if match else []
    if match is None or len(reasons) == 1:
        return [text]
    return [f"{match['before']}{reason}.{match['after'] or ''}" for reason in reasons]


def _collisions(text: str) -> list[str]:
    match = _COLLISIONS.search(text)
    objects = text[match.end() :].split("\n\nObject ") if match else []
    first = text[: match.end()] if match else ""
    return [
        first + (f"Object {error}" if number else error) for number, error in enumerate(objects)
    ]


def _lines(text: str) -> Iterator[str]:
    """The errors that are joined by line ends. Items of a list have the line before the list, and
    checks of CRDs the words that name the CRD."""
    if _COLLISIONS.search(text):
        yield text
        return
    before = check = ""
    for line in _with_checks_of_kapp(_RULES.sub(" ", text).splitlines()):
        if match := _CRD_CHECKS.match(line.strip()):
            check = match[1]
            yield match[0]
        elif check:
            yield check + line.strip()
        elif line.startswith(("- ", " ", "\t")):
            yield before + line
        elif line.endswith(":"):
            before = f"{line}\n"
        elif not line.startswith(_GOES_ON):
            yield line

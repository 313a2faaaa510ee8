"""Steps of remedies: what every remedy of a kind needs (names on OpenShift and in earlier releases,
the way to another version), and the values that are filled into the texts of findings.

Steps are those of the knowledge base; until their values are filled in, commands start with `$ `.

Values filled into texts come from status messages and are untrusted. A command gets only values
that are surely a name, a kind or an image reference; others leave a `<placeholder>`, for which
pages leave the command out and `plain_remedy` says what to put there. In a sentence a value is cut
and made one line; without one the placeholder stands in capitals.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

# The namespace of OLM v1 in upstream's manifests, which commands name, and OpenShift's two by the
# word of the command that tells them apart (deploy/helm/olmweb/values.yaml has the same names).
_UPSTREAM = "olmv1-system"
_OPENSHIFT = {
    "catalogd": "openshift-catalogd",
    "operator-controller": "openshift-operator-controller",
}

# What grants a permission, and what grants it at the cluster scope.
_ANY_ROLE = "a Role or ClusterRole and a binding"
_CLUSTER_ROLE = "a ClusterRole and a ClusterRoleBinding"


@cache
def completed(
    steps: tuple[str, ...],
    kind: str,
    *,
    plan_failed: bool,
    fails_forward: bool,
    clusterwide: bool,
    makes_bundles: bool | None,
    written_back: bool | None,
) -> tuple[str, ...]:
    """The steps with what they need on OpenShift and for an object of `kind`; `plan_failed` is
    whether its message is that of a failed InstallPlan, `fails_forward` whether OLM may replace a
    ClusterServiceVersion that failed with this message, `clusterwide` whether it is about a request
    at the cluster scope, `makes_bundles` whether it is of a release of rukpak that makes Bundles of
    BundleDeployments, None if it is not known, `written_back` whether the CatalogSource is one that
    OpenShift writes back, None if it is not known."""
    if clusterwide:
        steps = tuple(step.replace(_ANY_ROLE, _CLUSTER_ROLE) for step in steps)
    steps = _with_way_to_stay(steps, kind)
    steps = _with_former_kind(_with_own_revisions(_with_openshift(steps), kind), kind)
    steps = _with_former_source(_with_namespace_of_rukpak(steps), kind, makes_bundles)
    steps = _with_name_of_controller(steps, kind)
    steps = _with_own_bundle_deployment(steps, kind)
    steps = _with_own_catalogs_of_openshift(steps, written_back)
    if plan_failed:
        steps = tuple(_NEXT_ATTEMPT.sub("Press Retry on the Subscription", step) for step in steps)
    if kind == "InstallPlan" or (kind == "Subscription" and plan_failed):
        return _with_way_past_plan(steps)
    if kind == "ClusterServiceVersion":
        return _with_way_past_version(steps, fails_forward)
    if kind == "ClusterObjectSet":
        return _with_way_past_revision(steps)
    return _with_way_to_versions(steps) if kind == "PlatformOperator" else steps


def _with_openshift(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps, after the commands in upstream's namespace of OLM v1 with OpenShift's name of it.

    Where a command has the namespace in the name of an account it is to be replaced there.
    """
    at = [number for number, step in enumerate(steps) if step[:2] == "$ " and _UPSTREAM in step]
    if not at:
        return steps
    words = " ".join(steps[number] for number in at)
    named = [word for word in _OPENSHIFT if word in words]
    named = named or [word for word in _OPENSHIFT if word in " ".join(steps)] or list(_OPENSHIFT)
    option = "" if f":{_UPSTREAM}:" in words else "-n "
    names = [f"{option}{_OPENSHIFT[word]}" for word in named]
    if len(named) == 1:
        options = names[0]
    else:
        options = " and ".join(
            f"{name} for {word}" for name, word in zip(names, named, strict=True)
        )
    verb, place = ("use", "") if option else ("write", f" in place of {_UPSTREAM}")
    return (*steps[: at[-1] + 1], f"On OpenShift {verb} {options}{place}.", *steps[at[-1] + 1 :])


_CONTROLLERS = {
    **dict.fromkeys(("Subscription", "InstallPlan", "ClusterServiceVersion"), "OLM"),
    **dict.fromkeys(("ClusterExtension", "ClusterObjectSet"), "operator-controller"),
    **dict.fromkeys(("BundleDeployment", "Bundle"), "rukpak"),
}


def _with_name_of_controller(steps: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The steps, which name what makes an object again that was deleted."""
    controller = _CONTROLLERS.get(kind, "the controller")
    return tuple(
        step.replace("the controller makes it again", f"{controller} makes it again")
        for step in steps
    )


_ALL_REVISIONS = re.compile(
    r"\$ kubectl get clusterobjectsets((?: -o \S+| --show-managed-fields)*)"
)
_ALL_EXTENSIONS = "$ kubectl get clusterextensions -o "
_OWN_EXTENSION = "$ kubectl get clusterextension {name} -o "
_OWN_REVISIONS = {
    "ClusterObjectSet": "$ kubectl get clusterobjectset {name}",
    "ClusterExtension": (
        "$ kubectl get clusterobjectsets -l olm.operatorframework.io/owner-name={name}"
    ),
}


def _with_own_revisions(steps: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The steps, whose commands show of all revisions and ClusterExtensions only those that an
    object of `kind` is or has."""
    if kind not in _OWN_REVISIONS:
        return steps
    if kind == "ClusterExtension":
        steps = tuple(step.replace(_ALL_EXTENSIONS, _OWN_EXTENSION) for step in steps)
    matches = [_ALL_REVISIONS.fullmatch(step) for step in steps]
    return tuple(
        f"{_OWN_REVISIONS[kind]}{match[1]}" if match else step
        for step, match in zip(steps, matches, strict=True)
    )


_REVISIONS = re.compile(r"^\$ .*\bclusterobjectsets?\b")
_FORMER_REVISIONS = (
    "Up to release 1.8 of OLM v1 the kind is clusterextensionrevisions. The first of these "
    "releases have another label, so list all; the names begin with that of the ClusterExtension.",
    "$ kubectl get clusterextensionrevisions -o yaml",
)


def _with_former_kind(steps: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The steps, after the commands about revisions with their earlier name where the kind of the
    object does not tell the release."""
    at = [number for number, step in enumerate(steps) if _REVISIONS.search(step)]
    if kind != "ClusterExtension" or not at:
        return steps
    return (*steps[: at[-1] + 1], *_FORMER_REVISIONS, *steps[at[-1] + 1 :])


_RUKPAK = re.compile(r"^\$ .*-n rukpak-system\b")
_OTHER_NAMESPACE = (
    "Where rukpak runs in another namespace, name that one. On OpenShift it is openshift-rukpak, "
    "and in the first releases with platform operators openshift-platform-operators."
)


def _with_namespace_of_rukpak(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps, after the commands in upstream's namespace of rukpak with OpenShift's name of
    it."""
    at = [number for number, step in enumerate(steps) if _RUKPAK.search(step)]
    return (*steps[: at[-1] + 1], _OTHER_NAMESPACE, *steps[at[-1] + 1 :]) if at else steps


_SOURCE = re.compile(r"\bspec\.source\b")
_FORMER_SOURCE = (
    "Up to release 0.16 of rukpak the source is in spec.template.spec.source of the "
    "BundleDeployment."
)
_SOURCE_OF_TEMPLATE = (
    "In this release of rukpak the source is in spec.template.spec.source of the BundleDeployment."
)


def _with_former_source(
    steps: tuple[str, ...], kind: str, makes_bundles: bool | None
) -> tuple[str, ...]:
    """The steps, after those about the source of a BundleDeployment with the field that holds it in
    v1alpha1, unless the message is of a release without that."""
    tells_release = makes_bundles is False or any("spec.template.spec" in step for step in steps)
    if kind != "BundleDeployment" or tells_release:
        return steps
    at = [number for number, step in enumerate(steps) if _SOURCE.search(step)]
    sentence = _SOURCE_OF_TEMPLATE if makes_bundles else _FORMER_SOURCE
    return (*steps[: at[-1] + 1], sentence, *steps[at[-1] + 1 :]) if at else steps


# A PlatformOperator's BundleDeployment has its name; a Bundle's has another one.
_ARE_BUNDLE_DEPLOYMENTS = ("BundleDeployment", "PlatformOperator")


def _with_own_bundle_deployment(steps: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The steps, with the name of the BundleDeployment in place of a list where it is known."""
    if kind not in _ARE_BUNDLE_DEPLOYMENTS:
        return steps
    listed, own = "$ kubectl get bundledeployments -o ", "$ kubectl get bundledeployment {name} -o "
    return tuple(step.replace(listed, own) for step in steps)


# OLM does not try a failed plan again.
_NEXT_ATTEMPT = re.compile(
    r"^Wait for the next attempt(?: of the InstallPlan)?\b(?!.{0,99}\bpress Retry\b)"
)

_EDITS_CATALOG = re.compile(r"^\$ kubectl (?:-n \S+ )?edit (clustercatalog|catalogsource)\b")
# Resource of a catalog -> a step that changes its image, and what to do where that is undone.
_WRITTEN_BACK = {
    "clustercatalog": (
        re.compile(r"\bspec\.source\b"),
        "OpenShift writes the source of its own catalogs, whose names begin with openshift-, back. "
        "Set spec.availabilityMode of such a one to Unavailable, and create another "
        "ClusterCatalog.",
    ),
    "catalogsource": (
        re.compile(
            r"\b(?:[Ss]et spec\.image (?:of|to|back)|Correct spec\.image|tag in spec\.image)\b"
        ),
        "OpenShift writes spec.image of its own catalogs in openshift-marketplace back. Switch "
        "such a one off in spec.sources of the OperatorHub cluster, and create a CatalogSource "
        "with another name, which the Subscriptions then name in spec.source.",
    ),
}


_SETS_IMAGE_BACK = re.compile(r"\bset spec\.image back\b(?! to\b)")
_SETS_IMAGE = re.compile(r"\bset spec\.image (?:of the CatalogSource )?(?:back )?to\b")
_IS_WRITTEN_BACK = (
    "OpenShift writes spec.image of this catalog back. Switch the catalog off in spec.sources of "
    "the OperatorHub cluster (name and disabled: true), and create a CatalogSource with another "
    "name and the other image, which the Subscriptions then name in spec.source.",
    "$ oc edit operatorhub cluster",
)


def _with_own_catalogs_of_openshift(
    steps: tuple[str, ...], written_back: bool | None
) -> tuple[str, ...]:
    """The steps, after those that edit the image of a catalog with what to do where that is
    undone; in their place if it is known to be."""
    edits = [(at, _EDITS_CATALOG.search(step)) for at, step in enumerate(steps)]
    at, edit = next(((at, edit) for at, edit in reversed(edits) if edit), (0, None))
    if edit is None:
        return steps
    change, sentence = _WRITTEN_BACK[edit[1]]
    if written_back is False or not any(change.search(step) for step in steps):
        return steps
    if written_back:
        used = [_SETS_IMAGE_BACK.sub("use an earlier one", step) for step in steps]
        used = [_SETS_IMAGE.sub("use", step) for step in used]
        return (*used[:at], *_IS_WRITTEN_BACK, *used[at + 1 :])
    return (*steps[: at + 1], sentence, *steps[at + 1 :])


# A PlatformOperator names no version; its manager takes the highest that it finds.
_OTHER_VERSION = re.compile(r"\b(?:a|an older|another|other) version\b")
_WAY_TO_VERSIONS = (
    "A PlatformOperator always takes the highest version of its catalog. To choose another one, "
    "install the package with a Subscription or a ClusterExtension in its place. Deleting an "
    "installed PlatformOperator deletes its CRDs with all their objects, too."
)


def _with_way_to_versions(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps, with what leads to another version where the kind has no choice."""
    chosen = any(step[:2] != "$ " and _OTHER_VERSION.search(step) for step in steps)
    if not chosen or any("Subscription" in step for step in steps):
        return steps
    return (*steps, _WAY_TO_VERSIONS)


# A controller that upgrades by itself goes on with the new version until its spec says otherwise.
_STAYS = re.compile(r"\b[Ss]tay on the installed version\b")
_WAYS_TO_STAY = {
    "ClusterExtension": (
        "To stay on the installed version, set spec.source.catalog.version of the ClusterExtension "
        "to it.",
        "$ kubectl get clusterextension {name} -o jsonpath='{.status.install.bundle.version}'",
    ),
    "BundleDeployment": (
        "To stay on the installed version, set spec.source of the BundleDeployment back to its "
        "bundle.",
    ),
    "PlatformOperator": (
        "The installed version stays while the PlatformOperator tries the new one again and again; "
        "nothing has to be done for that.",
    ),
}


def _with_way_to_stay(steps: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The steps, after the one that leaves the installed version and its commands with what that
    takes for an object of `kind`."""
    at = next((number for number, step in enumerate(steps, 1) if _STAYS.search(step)), 0)
    if not at or kind not in _WAYS_TO_STAY:
        return steps
    while steps[at : at + 1] and steps[at].startswith("$ "):
        at += 1
    return (*steps[:at], *_WAYS_TO_STAY[kind], *steps[at:])


# OLM resolves nothing for a Subscription that waits for its InstallPlan, and forgets the plan when
# it is gone; once the ClusterServiceVersion exists, the Subscription counts as up to date.
_OTHER_OF_PLAN = re.compile(
    r"\b(?:another version|(?i:choose) (?:a|another) (?:version|channel|one))\b"
)
_REPLACES_PLAN = re.compile(r"\b[Dd]elete (?:the|this|that) InstallPlan\b")
_WAY_PAST_PLAN = (
    "OLM takes no other version while the Subscription waits for this InstallPlan. Set "
    "spec.channel of the Subscription first, or for a first install spec.startingCSV, then delete "
    "the InstallPlan; where the OperatorGroup allows fail forward (upgradeStrategy "
    "TechPreviewUnsafeFailForward), a failed one may stay. If its ClusterServiceVersion exists "
    "already, delete that and the one that it replaces, too, and create the Subscription anew; the "
    "operator is away meanwhile."
)


def _with_way_past_plan(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps, with what another version takes that has to come after an InstallPlan."""
    chosen = any(step[:2] != "$ " and _OTHER_OF_PLAN.search(step) for step in steps)
    return (*steps, _WAY_PAST_PLAN) if chosen and not replaces_plan(steps) else steps


def replaces_plan(steps: Iterable[str]) -> bool:
    """Whether the remedy deletes the InstallPlan, so that there is none to try again."""
    return any(_REPLACES_PLAN.search(step) for step in steps)


# OLM replaces a ClusterServiceVersion only from Succeeded, or from Failed where the OperatorGroup
# allows fail forward, and upgrades an older one to the same.
_OTHER_THAN_VERSION = re.compile(r"\b(?:an older|another) version\b|\bchoose a version\b")
_LEAVES_VERSION = re.compile(r"\b(?:[Dd]elete|[Rr]emove) (?:the|its) Subscription\b")
_WAY_PAST_VERSION = (
    "OLM takes no other version in the place of this one by itself. Delete the Subscription and "
    "each ClusterServiceVersion of the operator, then create the Subscription with the other "
    "version in spec.startingCSV, and with spec.installPlanApproval set to Manual if its channel "
    "leads to this one again. CRDs and their objects stay; the operator is away meanwhile."
)
_WAY_FORWARD = (
    "If this one is Failed and the OperatorGroup allows fail forward (upgradeStrategy "
    "TechPreviewUnsafeFailForward), OLM goes on to a version that replaces it; then set "
    "spec.channel of the Subscription to a channel that has one, and delete nothing."
)


def _with_way_past_version(steps: tuple[str, ...], fails_forward: bool) -> tuple[str, ...]:
    """The steps, with what another version takes in the place of a ClusterServiceVersion that is
    not installed."""
    chosen = any(step[:2] != "$ " and _OTHER_THAN_VERSION.search(step) for step in steps)
    if not chosen or any(_LEAVES_VERSION.search(step) for step in steps):
        return steps
    if fails_forward:
        return (*steps, _WAY_FORWARD, f"Otherwise {_WAY_PAST_VERSION}")
    return (*steps, _WAY_PAST_VERSION)


# operator-controller resolves nothing while a revision of a ClusterExtension rolls out
# (internal/operator-controller/controllers/clusterextension_reconcile_steps.go).
_DELETES_REVISION = re.compile(r"\b[Dd]elete (?:the|this) (?:revision|ClusterObjectSet)\b")
_WAY_PAST_REVISION = (
    "While this revision has not succeeded, in an upgrade, too, another version in the spec of the "
    "ClusterExtension counts only once this ClusterObjectSet is deleted: set the version, then "
    "delete it. The objects that no earlier revision owns go, too, CRDs with all their objects."
)


def _with_way_past_revision(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The steps, with what another version takes while a revision rolls out."""
    chosen = any(step[:2] != "$ " and _OTHER_VERSION.search(step) for step in steps)
    if not chosen or any(_DELETES_REVISION.search(step) for step in steps):
        return steps
    return (*steps, _WAY_PAST_REVISION)


# -- values of texts -------------------------------------------------------------------------------

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_LEFT = re.compile(r"<([a-z][a-z-]*)>")  # a placeholder for which there was no value
# What the placeholders stand for whose names don't say it.
_STANDS_FOR = {
    "name": "name of the object",
    "kind": "kind of the object",
    "namespace": "namespace",
    "og": "OperatorGroup",
    "sa": "ServiceAccount",
    "sa-namespace": "namespace of the ServiceAccount",
    "csv": "ClusterServiceVersion",
    "crd": "CustomResourceDefinition",
    "apiservice": "APIService",
    "plan": "InstallPlan",
    "catalog-name": "name of the catalog",
    "catalog-namespace": "namespace of the catalog",
    "keep": "operator that shall stay",
    "release": "name of the Helm release",
    "res": "resource",
}
_OF_FACT = re.compile(r"\[([a-z_]+)\] ")
ELSE = "else"  # of a step, in the place of a fact
SUBJECT_NAMES = ("name", "namespace", "kind", "package", "unpack_pod")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_ROLE_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9.:]{0,251}[A-Za-z0-9])?")  # or of a binding
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_SENTENCE_LIMIT = 200
# Indented lines and other items of a list go on with the line before, as after a colon.
_NEXT_ERROR = re.compile(r"(?<=[^\s:;,])(?:\.?\n\* |\n(?=[^\s*-]))")
# The same in a text that is a list of items itself, where any other line goes on with its item.
_ITEM = "* "
_NEXT_ITEM = re.compile(r"\.?\n\* ")
# These are left out for objects without a namespace, requests without a subresource and Kubernetes'
# first group; a question about a permission is for all namespaces then.
_OPTION = re.compile(
    r"(?: (?:-n \{(object_namespace|namespace)|--subresource=\{(subresource))|\.\{(group))\}"
)
_ASKS_PERMISSION = "kubectl auth can-i "


def for_facts(steps: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """The steps without those of a fact, such as `[taint] `, that the message does not have.

    A step of `[else] ` is for messages without any fact of the other steps, which facts that an
    earlier release stored may lack, too.
    """
    conditions = [match and match[1] for match in map(_OF_FACT.match, steps)]
    has_fact = any(facts.get(name) for name in conditions if name)
    return tuple(
        step.removeprefix(f"[{name}] ")
        for step, name in zip(steps, conditions, strict=True)
        if name is None or facts.get(name) or (name == ELSE and not has_fact)
    )


def is_command(step: str) -> bool:
    """Whether a step of a remedy is a command to copy, not a sentence to read."""
    return step.startswith(("kubectl ", "oc "))


def is_filled(step: str) -> bool:
    """Whether the values had a name for everything that a command of a remedy needs."""
    return not _LEFT.search(step)


def plain_remedy(remedy: Sequence[str]) -> list[str]:
    """The lines of a remedy for programs and terminals: where a command lacks a name, the word for
    it is in capitals, and a last sentence says what to put there.
    """
    left = dict.fromkeys(
        name for line in remedy if is_command(line) for name in _LEFT.findall(line)
    )
    lines = [
        _LEFT.sub(lambda match: _in_capitals(match[1]), line) if is_command(line) else line
        for line in remedy
    ]
    if left:
        stand = (f"{_in_capitals(name)} stands for the {_words(name)}" for name in left)
        lines.append(f"In these commands {', '.join(stand)}.")
    return lines


def _words(placeholder: str) -> str:
    return _STANDS_FOR.get(placeholder, placeholder.replace("-", " "))


def _in_capitals(placeholder: str) -> str:
    return placeholder.replace("-", "_").upper()


def fill_command(template: str, values: Mapping[str, str]) -> str:
    """The command with all values filled in that are safe in a shell."""
    words = template
    for kind in ("object_kind", "resource"):
        words = words.replace(f"{{{kind}}}", values.get(kind, ""))
    of_role = "role" in words.lower()

    def option(match: re.Match[str]) -> str:
        if values.get(match[1] or match[2] or match[3]) != "":
            return match[0]
        return " -A" if match[1] and template.startswith(_ASKS_PERMISSION) else ""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        text = values.get(name, "")
        allowed = _KIND if name.endswith("kind") else _NAME
        if of_role and name == "object_name":
            allowed = _ROLE_NAME
        if allowed.fullmatch(text):
            return text.lower() if allowed is _KIND else text
        return f"<{name.removeprefix('object_').replace('_', '-')}>"

    return PLACEHOLDER.sub(value, _OPTION.sub(option, template))


def fill_sentence(template: str, values: Mapping[str, str]) -> str:
    """The sentence with values as plain text: one line, at most 200 characters each.

    Errors that are joined line by line stay apart, by semicolons.
    """

    def value(match: re.Match[str]) -> str:
        text = values.get(match[1], "")
        ends = _NEXT_ITEM if text.startswith(_ITEM) else _NEXT_ERROR
        text = ends.sub("; ", text.removeprefix(_ITEM))
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if not text:
            return _in_capitals(match[1].removeprefix("object_"))
        if template.startswith((".", ";"), match.end()):  # the sentence goes on or ends by itself
            text = text.rstrip(".")
        return text if len(text) <= _SENTENCE_LIMIT else f"{text[:_SENTENCE_LIMIT]}…"

    return PLACEHOLDER.sub(value, template)


def fill_steps(templates: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        fill_command(step.removeprefix("$ "), values)
        if step.startswith("$ ")
        else fill_sentence(step, values)
        for step in templates
    )


def with_more_errors(
    steps: tuple[str, ...],
    errors: Sequence[tuple[str, tuple[str, ...]]],
    total: int,
    noun: str = "Error",
) -> tuple[str, ...]:
    """The remedy of the first of `total` errors that a message names, and those of the others, each
    with its cause after `noun` and its number. A sentence that is already there is left out with
    its commands."""
    shown = list(steps)
    for number, (words, remedy) in enumerate(errors, 2):
        shown.append(f"{noun} {number} of {total}: {words}")
        for block in _blocks(remedy):
            shown += block if set(block) - set(shown) else ()
    if left := total - 1 - len(errors):
        shown.append(f"The message names {left} more; see it for them.")
    return tuple(shown)


def _blocks(steps: Sequence[str]) -> list[list[str]]:
    """Each sentence with the commands after it."""
    blocks: list[list[str]] = []
    for step in steps:
        if is_command(step) and blocks:
            blocks[-1].append(step)
        else:
            blocks.append([step])
    return blocks

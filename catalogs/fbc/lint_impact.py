"""The reaction of each reader of a catalog to a fault of its content, and the author's remedy.

Mirrors operator-registry (alpha/declcfg, alpha/model, pkg/cache), operator-lifecycle-manager
(controller/registry/resolver), operator-controller (catalogd's storage, catalogmetadata/cache,
resolve) and platform-operators (sourcer). Pure.
"""

from typing import NamedTuple

REFUSES = "refuses the whole catalog"
SKIPS = "skips it"
INSTALLS = "installs anyway"


class Reactions(NamedTuple):
    """A kind of fault. Each reaction is one of REFUSES, SKIPS, INSTALLS.

    `opm` is validate and serve; `olm_v0` a CatalogSource, whose registry pod is `opm serve`;
    `operator_controller` includes catalogd; `platform_operator` reads a CatalogSource.
    INSTALLS: the reader accepts the content, though the faulty part may fail later.
    """

    title: str
    remedy: str  # one sentence for the catalog's author
    opm: str
    olm_v0: str
    operator_controller: str
    platform_operator: str

    @property
    def severity(self) -> str:
        """error: opm refuses the whole catalog; else warning."""
        return "error" if self.opm == REFUSES else "warning"


def _refused(title: str, remedy: str, v1: str = INSTALLS) -> Reactions:
    """opm serve is what a CatalogSource runs, and PlatformOperators read CatalogSources."""
    return Reactions(title, remedy, REFUSES, REFUSES, v1, REFUSES)


def _read(title: str, remedy: str, v0: str = INSTALLS, v1: str = INSTALLS) -> Reactions:
    return Reactions(title, remedy, INSTALLS, v0, v1, INSTALLS)


REACTIONS: dict[str, Reactions] = {
    # blobs
    "not-json": _refused(
        "Not JSON", "Write the blob as one complete JSON object (`opm render` does).", REFUSES
    ),
    "not-yaml": _refused(
        "Not YAML", "Write the document as valid YAML (`opm render -o yaml` does).", REFUSES
    ),
    "not-an-object": _refused(
        "Not an object", "Remove it, or write it as an object with a schema.", REFUSES
    ),
    "no-schema": _refused("No schema", "Give the blob a schema, such as olm.bundle.", SKIPS),
    "key-type": _refused(
        "Schema, package or name is no text",
        "Write schema, package and name as text, or leave them out.",
        REFUSES,
    ),
    "duplicate-key": _refused(
        "The same key twice", "Keep one spelling of the key: case makes no difference.", REFUSES
    ),
    "wrong-type": _refused("A field of a wrong type", "Give the field the type it names.", SKIPS),
    "unreadable": _refused("A blob that can't be read", "Render the blob anew with opm.", SKIPS),
    "too-deep": _read("Nested too deep", "Flatten the value; nothing needs so many levels."),
    "blob-too-large": _read("A blob beyond the limit", "Take large texts and objects out of it."),
    "yaml-aliases": _read("Too many YAML aliases", "Write the repeated parts out."),
    "name-too-long": _read("A name beyond the limit", "Shorten the name."),
    "nul": _read("A NUL character", "Remove the NUL character from the text."),
    "more": _read("More faults than are listed", "Repair those listed, then sync again."),
    # packages
    "no-package-name": _refused("A package without a name", "Name the package."),
    "duplicate-package": _refused(
        "The same package twice", "Keep one olm.package blob for each package."
    ),
    "package-name": _refused(
        "A package name that is no DNS label",
        "Use lower case letters, digits and dashes, at most 63.",
        SKIPS,
    ),
    "unknown-package": _refused(
        "A package that the catalog does not have",
        "Add the olm.package blob, or correct the package named here.",
    ),
    "icon": _refused(
        "An icon whose base64 is broken",
        "Encode the icon's file anew with base64 -w0 FILE, or leave the icon out.",
        SKIPS,
    ),
    "icon-kind": _read("An icon that can't be shown", "Use a PNG, JPEG, GIF, WebP or plain SVG."),
    "no-default-channel": _refused("No default channel", "Set defaultChannel to a channel."),
    "default-channel": _refused(
        "A default channel that does not exist",
        "Set defaultChannel to one of the package's channels.",
    ),
    "no-channels": _refused("A package without channels", "Add a channel that lists its bundles."),
    "duplicate-versions": _refused(
        "Several bundles of one version",
        "Give each bundle a version of its own, or a release (olm.package's release).",
    ),
    # channels
    "no-channel-name": _refused("A channel without a name", "Name the channel."),
    "duplicate-channel": _refused("The same channel twice", "Merge the channel blobs into one."),
    "duplicate-entry": _refused("The same entry twice", "Keep one entry for each bundle."),
    "no-entry-name": _refused("An entry without a name", "Name the bundle that the entry is for."),
    "empty-skip": _refused("An empty skip", "Remove the empty text from skips."),
    "skip-range": _refused(
        "A skipRange that can't be read",
        "Write comparisons with a space for and, || for or, such as >=1.0.0 <1.2.0.",
    ),
    "empty-channel": _refused("A channel without entries", "List its bundles, or remove it."),
    "no-head": _refused(
        "A channel without a head", "Let one entry be replaced and skipped by no other."
    ),
    "several-heads": _refused(
        "A channel with several heads",
        "Let the newest entry replace or skip the others, so that one remains.",
    ),
    "cycle": _refused(
        "A cycle of replaces", "Let each entry replace an older one, never a newer one."
    ),
    "stranded": _refused(
        "Entries that no upgrade reaches",
        "Let an entry of the chain replace or skip them, or remove them.",
    ),
    "entry-without-bundle": _refused(
        "Entries without a bundle", "Add their olm.bundle blobs, or remove the entries."
    ),
    # bundles
    "no-bundle-package": _refused(
        "A bundle of no package", "Set the bundle's package to its package's name.", SKIPS
    ),
    "duplicate-bundle": _refused("The same bundle twice", "Keep one blob for each bundle name."),
    "bundle-in-no-channel": _refused(
        "A bundle in no channel", "List it as an entry of a channel, or remove it."
    ),
    "bundle-name": _refused(
        "A name without its release", "Name it PACKAGE-vVERSION-RELEASE, as a release asks."
    ),
    "no-image": _refused("A bundle without an image", "Set the bundle's image."),
    "image": _refused(
        "An image reference that can't be read",
        "Write the image as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, without a scheme.",
    ),
    "property": _refused(
        "A property that can't be read", "Give the property the value that its type asks for."
    ),
    "package-property": _refused(
        "Not exactly one olm.package property",
        "Give the bundle one olm.package property, with packageName and version.",
        SKIPS,
    ),
    "package-mismatch": _refused(
        "Two names for the package", "Write the same name in package and in olm.package."
    ),
    "version": _refused(
        "A version that is no semantic version",
        "Write three numbers without leading zeros and without a v, such as 1.2.3.",
        SKIPS,
    ),
    "release": _refused(
        "A release that can't be read",
        "Use at most 20 characters: letters, digits, dashes, parts joined by dots.",
    ),
    "build-and-release": _refused(
        "A build and a release", "Use the release alone and take the +BUILD off the version."
    ),
    "bundle-object": _refused(
        "An olm.bundle.object that can't be read",
        "Put the manifest's JSON or YAML in data, base64-encoded; `opm render` does.",
        SKIPS,
    ),
    "csv": _read("A ClusterServiceVersion in parts unreadable", "Correct the field's type."),
    "constraint": _read(
        "An olm.constraint that can't be read",
        "Use one of cel, package, gvk, all, any and not, and no other field but failureMessage.",
        SKIPS,
        SKIPS,
    ),
    "max-openshift": _read(
        "A limit of OpenShift that can't be read",
        "Give olm.maxOpenShiftVersion once, as text such as 4.16: MAJOR.MINOR.",
    ),
    # deprecations
    "no-deprecation-package": _refused(
        "Deprecations of no package", "Set package to the package's name."
    ),
    "duplicate-deprecations": _refused(
        "Several deprecation blobs", "Merge them into one olm.deprecations for the package."
    ),
    "no-deprecation-schema": _refused(
        "A deprecation of nothing", "Set reference.schema: olm.package, olm.channel or olm.bundle."
    ),
    "deprecation-schema": _refused(
        "A deprecation of an unknown kind", "Use olm.package, olm.channel or olm.bundle."
    ),
    "duplicate-deprecation": _refused(
        "The same deprecation twice", "Keep one entry for each thing that is deprecated."
    ),
    "deprecation-target": _refused(
        "A deprecation of what does not exist", "Correct the name, or remove the entry."
    ),
    "deprecation-name": _refused(
        "A package deprecation with a name", "Leave reference.name out for olm.package."
    ),
    "no-deprecation-message": _refused(
        "A deprecation without a message", "Say in message what to use instead."
    ),
}
# For rows of an older release, until the next sync.
UNKNOWN = _refused("A fault", "Sync the catalog anew for what to do.")


def reactions_of(code: str) -> Reactions:
    return REACTIONS.get(code, UNKNOWN)

"""What a CRD refuses (422, one cause a field), what it fills in and what it drops."""

import json
from typing import Any

import pytest

from tests.conformance.refusals import UNCHECKED, refuse
from tests.conformance.server import (
    EXTENSIONS,
    PLANS,
    SUBSCRIPTIONS,
    Object,
    Server,
    about,
    cause,
    condition,
    extension,
    subscription,
)

SETS = "/apis/olm.operatorframework.io/v1/clusterobjectsets"
CATALOGS = "/apis/olm.operatorframework.io/v1/clustercatalogs"


def changed(body: Object, where: str, value: Any) -> Object:
    """The body with one field set, or removed when the value is ..."""
    made: Object = json.loads(json.dumps(body))
    node = made
    *parents, last = where.split(".")
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return made


@pytest.mark.parametrize(
    ("where", "value", "causes"),
    [
        ("spec.namespace", ..., [("FieldValueRequired", "Required value", "spec.namespace")]),
        ("spec.source", ..., [("FieldValueRequired", "Required value", "spec.source")]),
        (
            "spec",
            {},
            [
                ("FieldValueRequired", "Required value", "spec.namespace"),
                ("FieldValueRequired", "Required value", "spec.source"),
            ],
        ),
        (
            "spec.source.sourceType",
            "Wild",
            [
                (
                    "FieldValueNotSupported",
                    'Unsupported value: "Wild": supported values: "Catalog"',
                    "spec.source.sourceType",
                )
            ],
        ),
        (
            "spec.source.catalog.upgradeConstraintPolicy",
            "Wild",
            [
                (
                    "FieldValueNotSupported",
                    'Unsupported value: "Wild": supported values: "CatalogProvided", '
                    '"SelfCertified"',
                    "spec.source.catalog.upgradeConstraintPolicy",
                )
            ],
        ),
        (
            "spec.source.catalog.packageName",
            "x" * 254,
            [
                (
                    "FieldValueTooLong",
                    "Too long: may not be more than 253 bytes",
                    "spec.source.catalog.packageName",
                )
            ],
        ),
        (
            "spec.serviceAccount.name",
            "",
            [
                (
                    "FieldValueInvalid",
                    'Invalid value: "": spec.serviceAccount.name in body should be at least 1 '
                    "chars long",
                    "spec.serviceAccount.name",
                )
            ],
        ),
        (
            "spec.source.catalog.channels",
            ["x"] * 257,
            [
                (
                    "FieldValueTooMany",
                    "Too many: 257: must have at most 256 items",
                    "spec.source.catalog.channels",
                )
            ],
        ),
        (
            "spec.namespace",
            "Not_A_Label",
            [
                (
                    "FieldValueInvalid",
                    'Invalid value: "Not_A_Label": namespace must be a valid DNS1123 label',
                    "spec.namespace",
                )
            ],
        ),
        (
            "spec.source",
            {"sourceType": "Catalog"},
            [
                (
                    "FieldValueInvalid",
                    "Invalid value: catalog is required when sourceType is Catalog, and forbidden "
                    "otherwise",
                    "spec.source",
                )
            ],
        ),
        (
            "spec.source.catalog.channels",
            ["fine", "Not fine"],
            [
                (
                    "FieldValueInvalid",
                    'Invalid value: "Not fine": channels entries must be valid DNS1123 subdomains',
                    "spec.source.catalog.channels[1]",
                )
            ],
        ),
    ],
)
def test_a_spec_that_the_crd_refuses_is_told_by_field(
    server: Server, name: str, where: str, value: Any, causes: list[tuple[str, str, str]]
) -> None:
    body = changed(extension(name), where, value)
    refuse(server, EXTENSIONS, body, name, *(cause(*entry) for entry in causes))


@pytest.mark.parametrize(
    ("where", "value", "wanted", "actual"),
    [
        ("spec.namespace", 7, "string", "integer"),
        ("spec.namespace", True, "string", "boolean"),
        ("spec.namespace", 1.5, "string", "number"),
        ("spec.namespace", ["a"], "string", "array"),
        ("spec.source.catalog.channels", "a", "array", "string"),
        ("spec.source.catalog", "a", "object", "string"),
        ("spec.source", [], "object", "array"),
    ],
)
def test_a_value_of_another_type_is_told_with_both_types(
    server: Server, name: str, where: str, value: Any, wanted: str, actual: str
) -> None:
    body = changed(extension(name), where, value)
    text = f'Invalid value: "{actual}": {where} in body must be of type {wanted}: "{actual}"'
    answer = server.call("POST", EXTENSIONS, body)
    server.same(answer.status, 422)
    entries = answer.body["details"]["causes"]
    server.same(entries, [cause("FieldValueTypeInvalid", text, where), UNCHECKED])


def test_a_null_is_a_field_that_is_not_there(server: Server, name: str) -> None:
    body = changed(extension(name), "spec.namespace", None)
    missing = cause("FieldValueRequired", "Required value", "spec.namespace")
    refuse(server, EXTENSIONS, body, name, missing)
    body = changed(extension(name), "spec.source.catalog.version", None)
    made = server.made(EXTENSIONS, body)
    server.same("version" in made["spec"]["source"]["catalog"], False)


@pytest.mark.parametrize(
    ("where", "value", "reason", "message"),
    [
        (
            "spec.revision",
            0,
            "FieldValueInvalid",
            "Invalid value: 0: spec.revision in body should be greater than or equal to 1",
        ),
        (
            "spec.progressDeadlineMinutes",
            721,
            "FieldValueInvalid",
            "Invalid value: 721: spec.progressDeadlineMinutes in body should be less than or equal "
            "to 720",
        ),
    ],
)
def test_a_number_out_of_bounds_is_refused(
    server: Server, name: str, where: str, value: int, reason: str, message: str
) -> None:
    body = {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterObjectSet",
        "metadata": {"name": name},
        "spec": {"lifecycleState": "Active", "revision": 1},
    }
    refuse(server, SETS, changed(body, where, value), name, cause(reason, message, where))


def test_a_required_field_deeper_down_is_named_with_its_path(server: Server, ns: str) -> None:
    path = PLANS.format(ns)
    body = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "InstallPlan",
        "metadata": {"name": "p"},
        "spec": {"approval": "Manual"},
    }
    missing = [
        cause("FieldValueRequired", "Required value", f"spec.{field}")
        for field in ("approved", "clusterServiceVersionNames")
    ]
    refuse(server, path, body, "p", *missing)


def test_conditions_are_checked_one_by_one(server: Server, name: str) -> None:
    server.made(EXTENSIONS, extension(name))
    path = f"{EXTENSIONS}/{name}/status"
    bad = [
        condition("Installed", status="Maybe"),
        condition("Progressing", reason="has spaces"),
        condition("Installed"),
        {**condition("Fresh"), "lastTransitionTime": "yesterday"},
        {"type": "Bare", "status": "True"},
    ]
    answer = server.merge(path, {"status": {"conditions": bad}})
    # Messages of the status subresource begin below `status`, the fields do not.
    at = "status.conditions"
    required = [
        cause("FieldValueRequired", "Required value", f"{at}[4].{field}")
        for field in ("lastTransitionTime", "message", "reason")
    ]
    pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    expected = [
        cause(
            "FieldValueNotSupported",
            'Unsupported value: "Maybe": supported values: "True", "False", "Unknown"',
            f"{at}[0].status",
        ),
        cause(
            "FieldValueInvalid",
            f"Invalid value: \"has spaces\": conditions[1].reason in body should match '{pattern}'",
            f"{at}[1].reason",
        ),
        cause("FieldValueDuplicate", 'Duplicate value: {"type":"Installed"}', f"{at}[2]"),
        cause(
            "FieldValueTypeInvalid",
            'Invalid value: "yesterday": conditions[3].lastTransitionTime in body must be of type '
            'date-time: "yesterday"',
            f"{at}[3].lastTransitionTime",
        ),
        *required,
        UNCHECKED,
    ]
    entries = answer.body["details"]["causes"]
    order = lambda c: (c["field"], c["message"])  # noqa: E731
    server.same(answer.status, 422)
    server.same(sorted(entries, key=order), sorted(expected, key=order))


def test_an_immutable_field_can_be_kept_and_not_changed(server: Server, name: str) -> None:
    server.made(EXTENSIONS, extension(name))
    path = f"{EXTENSIONS}/{name}"
    server.same(server.merge(path, {"spec": {"namespace": "somewhere"}}).status, 200)
    answer = server.merge(path, {"spec": {"namespace": "other"}})
    message = 'Invalid value: "other": namespace is immutable'
    expected = cause("FieldValueInvalid", message, "spec.namespace")
    details = about(name, "olm.operatorframework.io", "ClusterExtension", expected)
    text = (
        f'ClusterExtension.olm.operatorframework.io "{name}" is invalid: spec.namespace: {message}'
    )
    server.refused(answer, 422, "Invalid", text, details)
    server.same(
        server.merge(path, {"spec": {"source": {"catalog": {"packageName": "b"}}}}).status, 422
    )


# --- defaults and unknown fields


def test_defaults_are_filled_in(server: Server, name: str) -> None:
    body = {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": "example.com/catalog:v1"}}},
    }
    made = server.made(CATALOGS, body)
    server.same((made["spec"]["availabilityMode"], made["spec"]["priority"]), ("Available", 0))
    server.same(server.get(f"{CATALOGS}/{name}").body["spec"], made["spec"])


def test_a_default_object_is_filled_in(server: Server, ns: str) -> None:
    path = f"/apis/operators.coreos.com/v1/namespaces/{ns}/operatorgroups"
    body = {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "g"},
    }
    server.same(server.made(path, body)["spec"], {"upgradeStrategy": "Default"})


def unknown(name: str) -> Object:
    body = extension(name)
    body["spec"]["source"]["catalog"]["extra"] = 1
    body["spec"]["more"] = {"a": "b"}
    return body


def test_unknown_fields_are_dropped_with_a_warning_each(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, unknown(name))
    server.same(answer.status, 201)
    server.same(sorted(answer.body["spec"]), ["namespace", "source"])
    server.same("extra" in answer.body["spec"]["source"]["catalog"], False)
    warnings = sorted(answer.headers["Warning"].split(", "))
    expected = ['299 - "unknown field \\"spec.more\\""']
    expected += ['299 - "unknown field \\"spec.source.catalog.extra\\""']
    server.same(warnings, expected)


def test_unknown_fields_are_dropped_silently_when_asked(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, unknown(name), fieldValidation="Ignore")
    server.same((answer.status, answer.headers.get("Warning")), (201, None))


def test_unknown_fields_are_refused_when_strict(server: Server, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, unknown(name), fieldValidation="Strict")
    text = (
        'ClusterExtension in version "v1" cannot be handled as a ClusterExtension: strict decoding '
        'error: unknown field "spec.more", unknown field "spec.source.catalog.extra"'
    )
    server.refused(answer, 400, "BadRequest", text)


def test_unknown_metadata_is_dropped_with_a_warning(server: Server, name: str) -> None:
    body = extension(name)
    body["metadata"]["bogus"] = 1
    answer = server.call("POST", EXTENSIONS, body)
    server.same((answer.status, "bogus" in answer.body["metadata"]), (201, False))
    server.same(answer.headers["Warning"], '299 - "unknown field \\"metadata.bogus\\""')


def test_an_unknown_field_in_a_patch_is_dropped_with_a_warning(server: Server, name: str) -> None:
    before = server.made(EXTENSIONS, extension(name))
    answer = server.merge(f"{EXTENSIONS}/{name}", {"spec": {"more": 1}})
    server.same((answer.status, answer.body), (200, before))
    server.same(answer.headers["Warning"], '299 - "unknown field \\"spec.more\\""')


def test_an_unknown_field_validation_is_422(server: Server, name: str) -> None:
    message = 'Unsupported value: "Nope": supported values: "", "Ignore", "Strict", "Warn"'
    field = "fieldValidation"
    expected = cause("FieldValueNotSupported", message, field)
    text = f'CreateOptions.meta.k8s.io "" is invalid: {field}: {message}'
    details = about("", "meta.k8s.io", "CreateOptions", expected)
    answer = server.call("POST", EXTENSIONS, extension(name), fieldValidation="Nope")
    server.refused(answer, 422, "Invalid", text, details)


def test_fields_below_a_free_object_are_kept(server: Server, ns: str) -> None:
    free = {"nodeSelector": {"a": "b"}, "deep": {"er": [1, {"x": None}]}}
    body = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": "s"},
        "spec": {"sourceType": "grpc", "grpcPodConfig": free},
    }
    made = server.made(SUBSCRIPTIONS.format(ns).replace("subscriptions", "catalogsources"), body)
    server.same(made["spec"]["grpcPodConfig"], free)


def test_undeclared_fields_of_a_configuration_are_dropped_and_its_quantities_checked(
    server: Server, ns: str
) -> None:
    body = subscription("s")
    config = {"env": [{"name": "A"}], "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}
    body["spec"]["config"] = config | {"deep": {"er": 1}}
    made = server.made(SUBSCRIPTIONS.format(ns), body)
    server.same(made["spec"]["config"], config)
    body["spec"]["config"] = {"resources": {"limits": {"cpu": "abc"}}}
    answer = server.call("POST", SUBSCRIPTIONS.format(ns), changed(body, "metadata.name", "t"))
    server.same(answer.status, 422)
    server.same(answer.body["details"]["causes"][0]["field"], "spec.config.resources.limits.cpu")

"""`manage.py resolve` and the same over REST: one answer, one JSON object, clear refusals."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.factories import make_catalog, make_cluster, make_package

pytestmark = pytest.mark.django_db
FIELDS = {"bundle", "version", "channel", "reason", "candidates", "blocked_by", "message"}


@pytest.fixture
def etcd():
    channels = {"stable": ("1.0.0", "1.1.0", "1.2.0"), "beta": ("2.0.0-rc.1",)}
    return make_package(catalog=make_catalog(name="shop"), name="etcd", channels=channels)


def run(*args: str) -> str:
    out = StringIO()
    call_command("resolve", *args, stdout=out)
    return out.getvalue()


def test_the_answer_is_one_json_object(etcd):
    told = json.loads(
        run("shop", "etcd", "--path", "clusterextension", "--version", "<1.2", "--json")
    )
    assert set(told) == FIELDS
    assert (told["bundle"], told["version"], told["channel"]) == ("etcd.v1.1.0", "1.1.0", "stable")
    assert [each["bundle"] for each in told["candidates"] if each["chosen"]] == ["etcd.v1.1.0"]
    assert len(told["candidates"]) == 4


def test_a_person_reads_what_and_why_not_another(etcd):
    text = run("shop", "etcd", "--path", "subscription", "--channel", "stable",
               "--installed", "etcd.v1.0.0")  # fmt: skip
    assert text.startswith("Chosen: etcd.v1.1.0 (1.1.0)\n")
    assert "etcd.v1.2.0  it neither replaces nor skips etcd.v1.0.0" in text


def test_nothing_chosen_is_an_answer_too(etcd):
    told = json.loads(
        run("shop", "etcd", "--path", "clusterextension", "--version", ">9", "--json")
    )
    assert (told["bundle"], told["blocked_by"]) == ("", "range")
    assert told["message"] == 'no bundles found for package "etcd" matching version ">9"'
    text = run("shop", "etcd", "--path", "clusterextension", "--version", ">9")
    assert text.startswith("Chosen: nothing\n")
    assert "The controller says: no bundles found" in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nope", "etcd", "--path", "subscription"), 'No catalog is called "nope"'),
        (("shop", "etc", "--path", "subscription"), 'has no package "etc". It has etcd.'),
        (("shop", "etcd", "--path", "helm"), '--path: "helm" is no install method: use'),
        (("shop", "etcd", "--path", "subscription", "--version", "^1"), "--version: '^'"),
        (("shop", "etcd", "--path", "subscription", "--installed", "x"), "--installed: "),
    ],
)
def test_bad_input_is_one_sentence(etcd, args, words):
    with pytest.raises(CommandError) as raised:
        run(*args)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_of_several_catalogs_must_be_given_in_full(etcd):
    other = make_catalog(name="shop", cluster=make_cluster(name="prod"))
    make_package(catalog=other, name="etcd", channels={"stable": ("3.0.0",)})
    with pytest.raises(CommandError, match=r"Several catalogs have that name: .*prod/shop"):
        run("shop", "etcd", "--path", "clusterextension")
    assert "etcd.v3.0.0" in run("prod/shop", "etcd", "--path", "clusterextension")
    assert "etcd.v2.0.0-rc.1" in run("--path", "clusterextension", "--", "-/shop", "etcd")


# -- REST -----------------------------------------------------------------------------------------

ROUTE = "/api/v1/packages/-/shop/etcd/resolve"


def test_the_api_gives_the_same_answer(client, bob, etcd):
    client.force_login(bob)
    query = {"method": "clusterextension", "version": "<1.2", "channel": ["stable", "beta"]}
    answer = client.get(ROUTE, query)
    assert answer.status_code == 200
    assert set(answer.json()) == FIELDS
    assert answer.json()["bundle"] == "etcd.v1.1.0"
    again = client.get(ROUTE, query, headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304
    other = {**query, "version": "<1.1"}
    assert client.get(ROUTE, other, headers={"If-None-Match": answer["ETag"]}).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "method"),
        ({"method": "helm"}, "method"),
        ({"method": "subscription", "version": "~1"}, "version"),
        ({"method": "subscription", "channel": ["a", "b"]}, "channel"),
        ({"method": "subscription", "pick": "1"}, "pick"),
    ],
)
def test_the_api_names_the_parameter_that_it_can_not_read(client, bob, etcd, query, field):
    client.force_login(bob)
    answer = client.get(ROUTE, query)
    assert answer.status_code == 400
    assert set(answer.json()["error"]["fields"]) == {field}

"""Roles, who may try to change a cluster, and as whom the cluster sees them."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User

from olmweb.accounts.roles import (
    ROLES,
    AccountBackend,
    create_roles,
    impersonation_for,
    may_act,
    role_of,
)
from olmweb.errors import OlmwebError

pytestmark = pytest.mark.django_db


def granted() -> dict[str, set[str]]:
    """Role -> the permissions of its group."""
    return {
        role.name: {
            f"{item.content_type.app_label}.{item.codename}"
            for item in Group.objects.get(name=role.group).permissions.select_related(
                "content_type"
            )
        }
        for role in ROLES
    }


def test_each_role_may_what_the_table_says_and_what_the_role_before_it_may() -> None:
    may = granted()
    assert "installs.add_action" not in may["viewer"]
    assert "installs.add_action" in may["operator"]
    assert may["viewer"] <= may["operator"] <= may["admin"]
    assert "installs.view_operator" in may["admin"] - may["operator"]
    assert not [name for name in may["admin"] if name.startswith("auth.")], "no way to a superuser"


def test_making_the_roles_again_changes_nothing_and_takes_nothing_away() -> None:
    group = Group.objects.get(name="olmweb-viewers")
    extra = Permission.objects.get(codename="view_cluster")
    group.permissions.add(extra)
    before = granted()
    create_roles()
    assert granted() == before
    assert Group.objects.filter(name__startswith="olmweb-").count() == len(ROLES)


@pytest.mark.parametrize("write_as", ["user", "service-account"])
def test_a_role_says_who_may_try(
    alice: User, bob: User, olivia: User, settings: Any, write_as: str
) -> None:
    settings.WRITE_AS = write_as
    assert may_act(alice) == (True, "")
    assert may_act(olivia) == (True, "")
    allowed, why = may_act(bob)
    assert not allowed
    assert "role operator" in why
    allowed, why = may_act(AnonymousUser())
    assert not allowed
    assert "Sign in" in why


def test_the_role_of_a_user_is_the_highest_whose_permissions_they_have(
    alice: User, bob: User, olivia: User, db: None
) -> None:
    nobody = User.objects.create_user("nobody")
    roles = [role_of(user) for user in (alice, olivia, bob, nobody, AnonymousUser())]
    assert [role and role.name for role in roles] == ["admin", "operator", "viewer", None, None]


def test_the_staff_flag_opens_the_admin_site_and_grants_nothing_else(bob: User) -> None:
    bob.is_staff = True
    allowed, why = may_act(bob)
    assert not allowed
    assert "role operator" in why


def test_a_permission_given_to_one_person_counts_too(bob: User) -> None:
    bob.user_permissions.add(Permission.objects.get(codename="add_action"))
    assert may_act(User.objects.get(pk=bob.pk))[0]


def test_the_cluster_sees_the_person_with_their_groups(olivia: User) -> None:
    user = impersonation_for(olivia)
    assert user is not None
    assert (user.user, user.groups) == ("olivia", ("olmweb-operators",))


def test_with_the_service_account_the_cluster_sees_nobody(alice: User, settings: Any) -> None:
    settings.WRITE_AS = "service-account"
    assert impersonation_for(alice) is None


def test_nobody_becomes_a_master_of_the_cluster_by_a_name(olivia: User) -> None:
    olivia.groups.add(Group.objects.create(name="system:masters"))
    user = impersonation_for(olivia)
    assert user is not None
    assert user.groups == ("olmweb-operators",)
    system = User.objects.create_superuser("system:admin", password="x")
    assert may_act(system)[0] is False
    with pytest.raises(OlmwebError) as caught:
        impersonation_for(system)
    assert caught.value.status == 403


def test_a_name_that_no_header_can_carry_is_told_in_a_sentence() -> None:
    with pytest.raises(OlmwebError, match="can't be sent"):
        impersonation_for(User.objects.create_superuser("zoë", password="x"))


def test_the_account_of_a_session_is_read_in_one_query_with_its_permissions_and_groups(
    olivia: User, django_assert_num_queries: Any
) -> None:
    olivia.groups.add(Group.objects.create(name="team blue"))
    olivia.user_permissions.add(Permission.objects.get(codename="sync_catalog"))
    expected = User.objects.get(pk=olivia.pk).get_all_permissions()
    with django_assert_num_queries(1):
        account = AccountBackend().get_user(olivia.pk)
        assert account is not None
        assert account.get_all_permissions() == expected
        impersonated = impersonation_for(account)
    assert {"catalogs.sync_catalog", "installs.add_action"} <= expected
    assert impersonated is not None
    assert impersonated.groups == ("olmweb-operators", "team blue")

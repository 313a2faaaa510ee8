"""The tasks around actions: enqueued with the row, run again until done, picked up when lost."""

from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks

from installs import tasks
from installs.actions import claims, follow
from installs.actions.plan import plan_install
from installs.actions.record import request
from installs.models import Action
from tests.factories import make_catalog, make_cluster, make_package

pytestmark = pytest.mark.django_db


def ask(user: User) -> Action:
    cluster = make_cluster()
    package = make_package(catalog=make_catalog(cluster=cluster))
    return request(plan_install(cluster, package, ""), user)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What would have gone to the broker."""
    mock = Mock()
    monkeypatch.setattr(tasks.run_action, "apply_async", mock)
    return mock


def test_a_worker_hears_of_an_action_only_once_its_row_is_committed(
    olivia: User, sent: Mock, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        action = ask(olivia)
        assert not sent.called
    sent.assert_called_once()
    assert (action.pk,) in (*sent.call_args.args, sent.call_args.kwargs.get("args"))


def test_an_action_without_an_outcome_runs_again_and_a_finished_one_does_not(
    sent: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "run", lambda _: 2.5)
    tasks.run_action(7)
    sent.assert_called_once_with((7,), countdown=2.5)
    sent.reset_mock()
    monkeypatch.setattr(follow, "run", lambda _: None)
    tasks.run_action(7)
    sent.assert_not_called()


@pytest.mark.parametrize(
    ("error", "level", "other"),
    [
        (RuntimeError("bug"), "error", "warning"),
        (OperationalError("the database system is starting up"), "warning", "error"),
    ],
)
def test_an_error_is_logged_and_the_action_left_for_the_next_pick_up(
    sent: Mock, monkeypatch: pytest.MonkeyPatch, error: Exception, level: str, other: str
) -> None:
    """With its trace, but for a database that is away, when every task fails."""
    logged = Mock()
    monkeypatch.setattr(follow, "run", Mock(side_effect=error))
    monkeypatch.setattr(tasks, "log", logged)
    tasks.run_action(7)
    sent.assert_not_called()
    getattr(logged, level).assert_called_once()
    getattr(logged, other).assert_not_called()
    assert str(error) in str(getattr(logged, level).call_args)


def test_actions_that_no_worker_is_at_are_picked_up(olivia: User, sent: Mock) -> None:
    action = ask(olivia)
    tasks.resume_actions()
    sent.assert_called_once_with((action.pk,), expires=tasks.RESUME_SECONDS)
    sent.reset_mock()
    assert claims.claim(action.pk) is not None
    tasks.resume_actions()
    sent.assert_not_called()

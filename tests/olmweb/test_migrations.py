"""Migrations only expand the schema, so that the version before goes on working on it."""

from collections.abc import Iterator

import pytest
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED, CharField, IntegerField, ManyToManyField

APPS = ("olmweb", "catalogs", "installs")
# Add nothing that the version before must know. A constraint may refuse its rows, so an
# AddConstraint is listed below when the version before writes none that it refuses.
HARMLESS = (
    ops.CreateModel,
    ops.AddIndex,
    ops.RemoveIndex,
    ops.RenameIndex,
    ops.AlterModelOptions,
    ops.AlterModelManagers,
    ops.RunPython,
)
# (app, migration, description of the operation): seen to be harmless to the version before.
REVIEWED = {
    # Rows of the version before have no request_hash, for which the condition leaves them out.
    ("installs", "0002_action_authority", "one_action_per_key"),
    # The text of a form's help.
    ("installs", "0002_action_authority", "without_approval"),
    # One more choice of a column without a constraint; shown as it is where it has no words.
    ("installs", "0005_action_no_change", "state"),
    # One more choice each. A worker of the version before ends its attempt at such an action before
    # it sends anything; one of this version carries it out.
    ("installs", "0019_action_configure", "verb"),
    ("installs", "0020_clean_up", "verb"),
    # Drops the foreign key of a table that the version before does not know.
    ("olmweb", "0003_audit_without_constraint", "user"),
    # The words of its choices.
    ("olmweb", "0004_token_names", "scope"),
    # More choices of a column without a constraint; shown as they are where they have no words.
    ("olmweb", "0009_catalog_events", "event"),
    ("olmweb", "0014_receiver_audit", "event"),
}


def narrowing(operation: Operation) -> bool:
    """Whether the operation may break the version before."""
    if isinstance(operation, ops.AddField):
        field = operation.field
        return not (
            field.null or field.db_default is not NOT_PROVIDED or isinstance(field, ManyToManyField)
        )
    return not isinstance(operation, HARMLESS)


def later_operations() -> Iterator[tuple[str, str, Operation]]:
    """(app, migration, operation) of all migrations but the initial ones."""
    migrations: dict[tuple[str, str], Migration] = dict(MigrationLoader(None).disk_migrations)
    for (app, name), migration in sorted(migrations.items()):
        if app in APPS and name != "0001_initial":
            for operation in migration.operations:
                yield app, name, operation


def subject(operation: Operation) -> str:
    """The name of what an operation is about."""
    constraint = getattr(operation, "constraint", None)
    name = getattr(constraint, "name", "") or getattr(operation, "name", "")
    return str(name) or operation.describe()


def test_no_migration_breaks_the_version_before() -> None:
    doubtful = {
        (app, name, subject(operation))
        for app, name, operation in later_operations()
        if narrowing(operation)
    }
    assert doubtful == REVIEWED, (
        "Processes of the version before run on the new schema during an upgrade. Add a column "
        "that is nullable or has a db_default, and remove or rename a release later."
    )


@pytest.mark.parametrize(
    "operation",
    [
        ops.RemoveField("action", "outcome"),
        ops.RenameField("action", "outcome", "result"),
        ops.AlterField("action", "outcome", CharField(max_length=10)),
        ops.DeleteModel("action"),
        ops.RenameModel("action", "change"),
        ops.AddField("action", "weight", IntegerField()),
        ops.AddField("action", "weight", IntegerField(default=1)),
        ops.RunSQL("DROP TABLE installs_action"),
    ],
)
def test_what_removes_renames_or_requires_is_refused(operation: Operation) -> None:
    assert narrowing(operation)


@pytest.mark.parametrize(
    "field", [IntegerField(null=True), IntegerField(default=1, db_default=1), ManyToManyField("x")]
)
def test_a_column_that_the_version_before_need_not_know_is_allowed(field: IntegerField) -> None:
    assert not narrowing(ops.AddField("action", "weight", field))

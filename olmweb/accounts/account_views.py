"""Pages of a signed-in person about the own account: preferences and API tokens.

Plain forms that need no script. They open with a session only, so a token can't make another one.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from olmweb.accounts.roles import View, may_issue_act_token, person_of, sign_in_required
from olmweb.errors import Missing, OlmwebError
from olmweb.models import ApiToken, Preferences
from olmweb.web.context import clusters
from olmweb.web.forms import clean_text
from olmweb.web.preferences import CLEAR, preferences_of, time_zones
from olmweb.web.tables import PARAMETER, Table

METHODS = ("GET", "HEAD", "POST")
UNPROCESSABLE = 422
DAY = 86_400  # seconds
NAME_LENGTH = f"A name has at most {ApiToken.MAX_NAME} characters."
DAYS = f"Enter 1 to {ApiToken.MAX_DAYS} days."
SCOPE = "Choose one of the scopes."


class NameField(forms.CharField):
    """One line of text that is not empty, without control characters."""

    def to_python(self, value: Any) -> str:
        return clean_text(value or "")


class TokenForm(forms.Form):
    """Name, scope and validity of a new token; `may_act`: whether the scope act is offered."""

    name = NameField(
        max_length=ApiToken.MAX_NAME,
        error_messages={
            "required": "Enter a name, such as the program that uses the token.",
            "max_length": NAME_LENGTH,
        },
    )
    scope = forms.ChoiceField(error_messages={"required": SCOPE, "invalid_choice": SCOPE})
    days = forms.IntegerField(
        min_value=1,
        max_value=ApiToken.MAX_DAYS,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), DAYS),
    )

    def __init__(self, data: Any = None, *, may_act: bool) -> None:
        super().__init__(data, initial={"scope": ApiToken.Scope.READ, "days": 90})
        scopes = ApiToken.Scope.choices
        self.fields["scope"].choices = scopes if may_act else scopes[:1]  # type: ignore[attr-defined]


class PreferencesForm(forms.ModelForm):  # type: ignore[type-arg]
    """Preferences of one account. `clusters` are the names of the configured ones."""

    time_zone = forms.ChoiceField()
    cluster = forms.ChoiceField(required=False)

    class Meta:
        model = Preferences
        fields = ("theme", "density", "time_zone", "cluster")

    def __init__(self, data: Any, *, instance: Preferences, clusters: Iterable[str]) -> None:
        super().__init__(data, instance=instance)
        zones = [(name, name.replace("_", " ")) for name in time_zones()]
        choices = {
            "time_zone": [(Preferences.BROWSER, "Of the browser"), *zones],
            "cluster": [("", "None"), *((name, name) for name in clusters)],
        }
        for name, pairs in choices.items():
            self.fields[name].choices = pairs  # type: ignore[attr-defined]
        for field in self.fields.values():
            offered = "Choose one of the values that are offered."
            field.error_messages |= {"required": offered, "invalid_choice": offered}


@never_cache
@require_http_methods(METHODS)
@sign_in_required()
def preferences(request: HttpRequest) -> HttpResponse:
    """The form of the person's preferences; the first save makes their row."""
    person = person_of(request)
    names = [cluster.name for cluster in clusters(request)]
    stored = copy(preferences_of(request))  # a refused form changes nothing of the page around it
    data = request.POST if request.method == "POST" else None
    form = PreferencesForm(data, instance=stored, clusters=names)
    if not form.is_bound:
        return render(request, "account/preferences.html", {"form": form})
    if form.is_valid():
        Preferences.objects.update_or_create(user=person, defaults=form.cleaned_data)
        messages.success(request, "Preferences saved.")
        return redirect("account")
    return render(request, "account/preferences.html", {"form": form}, status=UNPROCESSABLE)


@never_cache
@require_http_methods(METHODS)
@sign_in_required()
def tokens(request: HttpRequest) -> HttpResponse:
    """The API tokens of the person, and the form of a new one, which its answer shows once."""
    user = person_of(request)
    acts, why_not = may_issue_act_token(user)
    form = TokenForm(request.POST if request.method == "POST" else None, may_act=acts)
    context: dict[str, Any] = {"form": form, "why_not": why_not}
    status = 200
    if form.is_bound:
        try:
            context["secret"], context["made"] = _issue(user, form)
            context["form"] = TokenForm(may_act=acts)
        except OlmwebError as error:
            context["refusal"], status = error, error.status
    rows = sorted(ApiToken.objects.filter(user=user), key=lambda row: row.ends_at, reverse=True)
    now = timezone.now()
    context["rows"] = [(row, row.ends_at > now) for row in rows]
    context["valid"] = sum(valid for _, valid in context["rows"])
    context["limit"] = ApiToken.MAX_COUNT
    context["days_hint"] = f"1 to {ApiToken.MAX_DAYS}."
    context["max_name"] = ApiToken.MAX_NAME
    context["sign_in_days"] = settings.OIDC_MAX_AGE // DAY if hasattr(user, "oidc_identity") else 0
    return render(request, "account/tokens.html", context, status=status)


def _issue(user: User, form: TokenForm) -> tuple[str, ApiToken]:
    """(the new token, its row). Raises OlmwebError; what concerns a field is in the form, too."""
    if form.is_valid():
        values = form.cleaned_data
        try:
            return ApiToken.issue(user.pk, values["scope"], values["days"], values["name"])
        except OlmwebError as error:
            if not error.fields:
                raise
            for field, sentence in error.fields.items():
                form.add_error(field, ValidationError(sentence))
    sentences = {name: str(errors[0]) for name, errors in form.errors.items()}
    raise OlmwebError(
        "No token was created.", code="invalid", status=UNPROCESSABLE, fields=sentences
    )


@never_cache
@require_http_methods(METHODS)
@sign_in_required()
def revoke(request: HttpRequest, id: int) -> HttpResponse:
    """Asks for a confirmation, and deletes a token of the person.

    Raises Missing for one of another person, as for one that does not exist.
    """
    rows = ApiToken.objects.filter(user=person_of(request))
    token = rows.filter(pk=id).first() if id < 2**63 else None
    if token is None:
        raise Missing(
            f"You have no API token {id}.",
            code="unknown-token",
            hint="It may be revoked already; the page API tokens lists yours.",
        )
    if request.method != "POST":
        return render(request, "account/token_revoke.html", {"token": token})
    token.delete()
    messages.success(request, f"The token {token.name or id} is revoked.")
    return redirect("account-tokens")


def choose_columns(table: Table) -> View:
    """The view that remembers the shown columns of `table`, and leads back to the list with them in
    its address."""

    @require_POST
    @sign_in_required(return_to=table.route)
    def remember_columns(request: HttpRequest) -> HttpResponse:
        names = request.POST.getlist(PARAMETER)
        table.remember(person_of(request), names)
        params = request.GET.copy()
        params.pop(CLEAR, None)
        params.setlist(PARAMETER, list(table.read(names)))
        return redirect(f"{reverse(table.route)}?{params.urlencode()}")

    return remember_columns

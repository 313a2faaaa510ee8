"""Base classes of the forms that read query strings and the fields of a POST.

A QueryForm is tolerant, so that a bookmark never ends in an error: an unreadable value is replaced
by the initial value of its field, and the error becomes a notice. A FilterForm is strict and raises
BadRequest.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from olmweb.errors import BadRequest

FILTER_LIMIT = 1024  # characters of a filter


def clean_text(value: str) -> str:
    """Replaces control characters with spaces and strips outer spaces."""
    return "".join(char if char.isprintable() else " " for char in value).strip()


class TextField(forms.CharField):
    """One line of text, cleaned; cut to `max_length` unless that is 0."""

    def __init__(self, max_length: int = 0, initial: str = "") -> None:
        super().__init__(required=False, initial=initial)
        self.limit = max_length

    def clean(self, value: Any) -> str:
        text = clean_text(value or "")
        return text[: self.limit] if self.limit else text


class OptionField(forms.Field):
    """One of `options` in any case; the first of them where the parameter is absent."""

    def __init__(self, name: str, options: Sequence[str]) -> None:
        super().__init__(required=False, initial=options[0])
        self.name = name
        self.options = options

    def clean(self, value: Any) -> str:
        for option in self.options:
            if (value or "").lower() == option.lower():
                return option
        if not value:
            return self.options[0]
        raise ValidationError(
            f"“{self.name}” can be {', '.join(self.options)}; {self.options[0]} is shown."
        )


class PageField(forms.Field):
    """The number of a page, counted from 1."""

    def __init__(self) -> None:
        super().__init__(required=False, initial=1)

    def clean(self, value: Any) -> int:
        if not value:
            return 1
        if value.isascii() and value.isdigit() and len(value) <= 6 and int(value) >= 1:
            return int(value)
        raise ValidationError("Pages are counted from 1; the first page is shown.")


def read_page(params: QueryDict, notices: list[str]) -> int:
    """The page number; 1 with a notice for anything that is none."""
    try:
        return PageField().clean(params.get("page", ""))
    except ValidationError as error:
        notices.extend(error.messages)
    return 1


class QueryForm(forms.Form):
    """A tolerant form: `cleaned_data` has a value of every field, `notices` gets the errors."""

    def __init__(self, params: QueryDict, notices: list[str]) -> None:
        super().__init__(params)
        self.params = params
        self.notices = notices
        self.full_clean()
        for name, errors in self.errors.items():
            notices.extend(str(error) for error in errors)
            self.cleaned_data[name] = self.fields[name].initial


class ValueField(forms.CharField):
    """Text as it was sent, cut to `limit` characters. `label` names it in messages, instead of the
    name of the field."""

    def __init__(self, limit: int = 1000, label: str | None = None) -> None:
        super().__init__(required=False, strip=False, label=label)
        self.limit = limit

    def clean(self, value: Any) -> str:
        return str(value or "")[: self.limit]


class ValuesForm(forms.Form):
    """Values whose rules are checked where the change is planned; `refuse` adds its errors."""

    def __init__(self, params: Mapping[str, str]) -> None:
        super().__init__(params)
        self.full_clean()

    def refuse(self, sentences: Mapping[str, str]) -> None:
        for name, sentence in sentences.items():
            self.errors[name] = self.error_class([sentence])

    @property
    def labels(self) -> dict[str, str]:
        """Field to its label, of those that have one."""
        return {name: str(field.label) for name, field in self.fields.items() if field.label}

    @property
    def sentences(self) -> dict[str, str]:
        """Field to the first sentence about it."""
        return {name: str(errors[0]) for name, errors in self.errors.items()}


class TextFilter(forms.CharField):
    """Text that a list is narrowed to."""

    def __init__(self, label: str = "") -> None:
        super().__init__(required=False, label=label)

    def words(self, value: str) -> str:
        return value

    def validate(self, value: str) -> None:
        if len(value) > FILTER_LIMIT or not (value.isprintable() or not value):
            raise ValidationError(
                "The filter {name} has characters that can't be searched, or over "
                f"{FILTER_LIMIT} of them.",
                params={"expected": "plain text"},
            )


class ChoiceFilter(TextFilter):
    """One of `choices`, or nothing; a mapping also has the words of each value. `noun` names such a
    value in the error."""

    def __init__(self, choices: Collection[str], noun: str = "", label: str = "") -> None:
        super().__init__(label)
        self.choices = choices
        self.noun = noun

    def validate(self, value: str) -> None:
        super().validate(value)
        if value and self.key(value) not in self.choices:
            listed = ", ".join(self.choices)
            problem = f"is no {self.noun}" if self.noun else "is not possible"
            raise ValidationError(
                f"{{name}}={{value}} {problem}; use one of: {listed}.",
                params={"expected": f"one of {listed}"},
            )

    def key(self, value: str) -> str:
        return value

    def words(self, value: str) -> str:
        return self.choices[value] if isinstance(self.choices, Mapping) else value


class SortFilter(ChoiceFilter):
    """A key to sort by, `-` in front for descending; empty for the default."""

    def key(self, value: str) -> str:
        return value.removeprefix("-")


class FilterForm(forms.Form):
    """A strict form over a query string."""

    @classmethod
    def read(cls, params: Mapping[str, str]) -> dict[str, str]:
        """The value of each field, empty where it is absent. Raises BadRequest for the first that
        is not valid."""
        form = cls(params)
        for name, errors in form.errors.as_data().items():
            error = errors[0]
            value = params.get(name, "").strip()[:40]
            raise BadRequest(
                str(error.message).format(name=name, value=value),
                code="bad-filter",
                **{name: (error.params or {}).get("expected", "plain text")},
            )
        return form.cleaned_data

    @classmethod
    def chips(cls, chosen: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """(parameter, its label, value in words) of every filter in use."""
        return [
            (name, str(field.label or name.capitalize()), field.words(chosen[name]))
            for name, field in cls.base_fields.items()
            if isinstance(field, TextFilter) and chosen.get(name)
        ]

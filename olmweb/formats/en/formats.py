"""Formats of dates; see https://docs.djangoproject.com/en/stable/topics/i18n/formatting/."""

DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = "Y-m-d H:i:s T"  # as the other pages show an exact time
SHORT_DATE_FORMAT = DATE_FORMAT
SHORT_DATETIME_FORMAT = DATETIME_FORMAT

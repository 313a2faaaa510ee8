"""The shell of every page: who sees it, what it says of the clusters, errors, the template tags."""

import gc
import json
import re
import weakref
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.template import Context, Template
from django.template.loader import render_to_string
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone

from olmweb.errors import BadRequest
from olmweb.models import Cluster
from olmweb.templatetags import olmweb as tags
from olmweb.web.pages import render_page, revision_token
from tests.factories import (
    make_catalog,
    make_cluster,
    make_crd,
    make_operator,
    make_package,
)
from tests.worlds.html import assert_fragment, assert_page, read

pytestmark = pytest.mark.django_db
PAGES = ("/", "/operators/", "/cluster-operators/", "/crds/", "/activity/")


@pytest.fixture
def public(settings: Any) -> None:
    settings.PUBLIC_READ = True


@pytest.mark.parametrize("path", PAGES)
def test_anonymous_visitors_are_sent_to_sign_in_and_back(client: Client, path: str) -> None:
    response = client.get(path, {"q": "a b"})
    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=" + path)


@pytest.mark.parametrize("path", PAGES)
def test_anonymous_visitors_read_when_reading_is_public(
    client: Client, public: None, path: str
) -> None:
    page = assert_page(client.get(path))
    assert "Sign in" in page.text


@pytest.mark.parametrize(
    ("reason", "words"), [("Retrying", "Progressing"), ("Succeeded", "Progressing: Succeeded")]
)
def test_progressing_with_the_reason_succeeded_is_not_shown_as_under_way(
    reason: str, words: str
) -> None:
    shown = tags.pill("Progressing", "True", reason)
    assert f">{words}<" in shown
    assert ("pf-m-info" in shown) == (reason == "Retrying")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_only_read_never_posted(reader: Client, path: str) -> None:
    assert reader.post(path).status_code == 405


def test_the_sign_in_page_shows_no_cluster_to_strangers(client: Client) -> None:
    make_cluster(name="secret-cluster")
    page = assert_page(client.get("/login/"))
    assert "secret-cluster" not in page.text
    assert "/operators/" not in page.links


def test_a_wrong_password_is_told_in_a_focused_summary(client: Client) -> None:
    response = client.post("/login/", {"username": "nobody", "password": "wrong"})
    page = assert_page(response)
    assert "don't match" in page.text
    assert "data-focus" in response.content.decode()


def test_signing_out_needs_a_post(reader: Client) -> None:
    assert reader.get("/logout/").status_code == 405
    assert reader.post("/logout/").status_code == 302
    assert reader.get("/").status_code == 302


def test_the_nav_marks_where_the_reader_is(reader: Client) -> None:
    text = reader.get("/cluster-operators/").content.decode()
    assert text.count('aria-current="page"') == 1
    assert 'href="/cluster-operators/" aria-current="page"' in " ".join(text.split())


def test_the_nav_leads_to_the_leftovers_of_removed_operators(reader: Client) -> None:
    make_cluster(name="prod")
    for path, current in (("/leftovers/", True), ("/crds/", False)):
        text = " ".join(reader.get(path).content.decode().split())
        nav = text.partition('class="pf-v6-c-nav"')[2].partition("</nav>")[0]
        assert ('href="/leftovers/" aria-current="page"' in nav) is current
        assert "</span> Leftovers </a>" in nav
        assert nav.count('aria-current="page"') == 1


def test_the_nav_marks_the_list_of_a_page_with_another_address(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    catalog = make_catalog(cluster=cluster, name="certified")
    make_package(name="etcd", catalog=catalog)
    make_operator(cluster=cluster, name="etcd")
    make_crd(cluster=cluster, name="etcds.x.example")
    for path, marked, words in (
        ("/contents/prod/certified/etcd/etcd.v1.1.0", "/software/", "Software catalog"),
        ("/objects/prod/PlatformOperator/-/etcd", "/operators/", "Installed operators"),
        ("/objects/prod/CustomResourceDefinition/-/etcds.x.example", "/crds/", "CRDs"),
    ):
        response = reader.get(path)
        nav, _, rest = " ".join(response.content.decode().split()).partition(
            'class="olm-nav-close"'
        )
        assert f'href="{marked}" aria-current="page"' in nav, path
        assert nav.count('aria-current="page"') == 1
        breadcrumbs = rest.partition('aria-label="Breadcrumb"')[2].partition("</nav>")[0]
        assert f'href="{marked}">{words}</a>' in breadcrumbs, path


@pytest.mark.parametrize("path", ["/", "/audit/", "/catalogs/"])
def test_the_nav_leads_to_pages_from_every_page(reader: Client, path: str) -> None:
    make_catalog(cluster=make_cluster(name="prod"), name="certified")
    page = reader.get(path).content.decode()
    nav = page.partition('<nav class="pf-v6-c-nav"')[2].partition("</nav>")[0]
    for link in re.findall(r'pf-v6-c-nav__link[^>]*? href="([^"]*)"', " ".join(nav.split())):
        assert reader.get(link).status_code == 200, link


def test_the_masthead_counts_what_needs_attention(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster, name="a", health="Failed")
    make_operator(cluster=cluster, name="b", health="Healthy")
    assert "1 needs attention" in assert_page(reader.get("/activity/")).text


def test_a_silent_cluster_is_told_on_every_page_with_what_to_check(reader: Client) -> None:
    make_cluster(
        name="prod",
        reachable=False,
        error_text="connection refused",
        error_hint="Is the API server up?",
        synced_at=timezone.now() - timedelta(hours=3),
    )
    for path in PAGES:
        page = assert_page(reader.get(path))
        assert "Cluster prod unreachable since" in page.text
        assert "connection refused" in page.text
        assert "Is the API server up?" in page.text


def test_the_menu_of_clusters_says_which_are_not_synced(reader: Client) -> None:
    old = timezone.now() - timedelta(hours=3)
    make_cluster(name="a", reachable=False, synced_at=None)
    make_operator(cluster=make_cluster(name="b", synced_at=old), name="x", health="Failed")
    make_cluster(name="c", reachable=None, synced_at=None)
    text = assert_page(reader.get("/activity/")).text
    assert re.search(r"a v?[\d.]* ?unreachable a: not reached yet", text)
    assert re.search(r"b v?[\d.]* ?not synced b: synced 3 h ago", text)
    assert re.search(r"c v?[\d.]* ?in first sync c: first sync running", text)
    assert "2 not synced of 1 in first sync of 3 clusters" in text


def test_many_silent_clusters_are_told_in_one(reader: Client) -> None:
    for number in range(50):
        silent = number % 7 == 0
        make_cluster(name=f"prod-{number:02}", reachable=not silent, error_text="refused" * silent)
    make_operator(cluster=Cluster.objects.get(name="prod-01"), name="a", health="Failed")
    page = assert_page(reader.get("/software/"))
    assert page.text.count("clusters not synced") == 1
    names = "prod-00, prod-07, prod-14, prod-21, prod-28"
    assert f"8 of 50 clusters not synced: {names} and 3 more" in page.text
    assert "8 not synced of 1 needing attention of 41 healthy of 50 clusters" in page.text
    table = assert_page(reader.get("/")).text
    assert "8 of 50 clusters not synced" not in table
    assert table.count("refused") == 8


def test_an_unknown_address_says_so(reader: Client) -> None:
    response = reader.get("/no/such/page")
    assert "This page does not exist" in assert_page(response, 404).text
    assert "pf-v6-c-empty-state__icon" in response.text


def test_an_error_under_htmx_is_a_whole_page_with_its_sentence(reader: Client) -> None:
    """htmx swaps no error; app.js shows the sentence marked data-error."""
    response = reader.get("/operators/", {"health": "Sick"}, headers={"HX-Request": "true"})
    assert response.status_code == 400
    assert "data-error>health=Sick is no health" in response.content.decode()


def test_the_page_of_an_error_says_each_sentence_once(reader: Client) -> None:
    page = assert_page(reader.get("/operators/", {"health": "Sick"}), 400)
    assert page.text.count("attention, Failed, Blocked") == 1
    fields = {"channel": "Enter a channel.", "version": "Enter it."}
    error = BadRequest("Two values are wrong. Enter a channel.", **fields)
    assert error.further_fields == {"version": "Enter it."}


def test_a_form_without_its_csrf_token_is_refused_with_a_sentence(bob: Any) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    page = assert_page(strict.post("/logout/"), 403)
    assert "Form expired" in page.text
    assert "Nothing was changed." in page.text
    assert "reload the page and submit the form again" in page.text
    assert "permission" not in page.text


def test_every_page_forbids_inline_script_and_style(reader: Client) -> None:
    policy = reader.get("/")["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_htmx_is_told_not_to_eval_and_to_swap_refused_forms(reader: Client) -> None:
    text = reader.get("/").content.decode()
    start = text.index("content='{") + len("content='")
    config = json.loads(text[start : text.index("'", start)])
    assert config["allowEval"] is False
    assert config["allowScriptTags"] is False
    assert config["historyRestoreAsHxRequest"] is False
    assert {"code": "422", "swap": True} in config["responseHandling"]


def test_boosted_and_history_restoring_requests_get_the_whole_page(reader: Client) -> None:
    for header in ("HX-Boosted", "HX-History-Restore-Request"):
        assert_page(reader.get("/operators/", headers={"HX-Request": "true", header: "true"}))
    assert_fragment(reader.get("/operators/", headers={"HX-Request": "true"}))


def test_several_clusters_are_listed_in_the_masthead(reader: Client) -> None:
    make_cluster(name="one")
    make_cluster(name="two")
    page = assert_page(reader.get("/activity/"))
    assert "/?cluster=one" in page.links
    assert "/?cluster=two" in page.links


def test_a_shell_costs_one_query(reader: Client, django_assert_num_queries: Any) -> None:
    for number in range(3):
        make_cluster(name=f"c{number}")
    with django_assert_num_queries(3):  # session, user, clusters
        reader.get("/no/such/page")


# --- tags --------------------------------------------------------------------------------------


def render(text: str, path: str = "/operators/", **context: Any) -> str:
    request = RequestFactory().get(path)
    return Template(text).render(Context({"request": request, **context}))


@pytest.mark.parametrize(
    ("past", "words"),
    [(0, "now"), (4, "4 s ago"), (59, "59 s ago"), (60, "1 min ago"), (3599, "59 min ago"),
     (3600, "1 h ago"), (172_799, "47 h ago"), (172_800, "2 d ago"), (-5, "now")],
)  # fmt: skip
def test_a_time_is_told_relative(past: int, words: str) -> None:
    assert tags.ago_words(timezone.now() - timedelta(seconds=past)) == words


def test_a_time_has_its_exact_value_as_tooltip() -> None:
    text = render("{% ago at %}", at=timezone.now())
    assert "<time data-ago datetime=" in text
    assert "UTC" in text
    assert render("{% ago none %}", none=None).endswith("–</span>")


def test_how_long_something_lasts_is_told_behind_for() -> None:
    told = tags.ago(timezone.now() - timedelta(hours=2, minutes=5), lasting=True)
    assert told.startswith('<time data-ago="lasting" datetime=')
    assert told.endswith(">2 h</time>")
    assert tags.ago(timezone.now(), lasting=True).endswith(">a moment</time>")


def test_a_cell_without_a_value_has_a_dash_that_phones_leave_out() -> None:
    assert render("{{ value|or_none }}", value="") == '<span class="olm-none">–</span>'
    assert render("{{ value|or_none }}", value=None) == '<span class="olm-none">–</span>'
    assert render("{{ value|or_none }}", value=0) == "0"
    assert render("{{ value|or_none }}", value="<b>") == "&lt;b&gt;"


@pytest.mark.parametrize(
    "path",
    ["/operators/", "/cluster-operators/", "/crds/", "/leftovers/", "/unknown-messages/",
     "/readiness/", "/readiness/olm-v1/", "/report/"],
)  # fmt: skip
def test_without_a_cluster_each_list_leads_to_the_first_steps(reader: Client, path: str) -> None:
    text = assert_page(reader.get(path)).text
    assert "No cluster yet The overview says how to connect the first one. To the overview" in text


@override_settings(CLUSTERS=["lab"])
def test_before_the_first_sync_of_a_configured_cluster_lists_lead_to_its_state(
    reader: Client,
) -> None:
    text = assert_page(reader.get("/operators/")).text
    assert "No cluster synced yet The overview shows the state of the first sync." in text
    assert "No cluster yet" not in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.4, "<1 s"), (14, "14 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"),
     (7200, "2 h"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_a_duration_is_told_in_two_units(seconds: float | None, words: str) -> None:
    assert tags.duration(seconds) == words


def test_health_is_an_icon_and_a_word_and_escapes_what_it_does_not_know() -> None:
    assert "Needs approval" in render("{% health 'NeedsApproval' %}")
    assert "#exclamation-triangle" in render("{% health 'NeedsApproval' %}")
    assert "<b>" not in render("{% health value %}", value="<b>odd")


def test_a_pill_is_yellow_for_degraded_and_red_for_unavailable() -> None:
    assert "pf-m-warning" in render("{% pill 'Degraded' 'True' %}")
    assert "pf-m-danger" in render("{% pill 'Available' 'False' %}")
    assert "Available: Odd" in render("{% pill 'Available' 'Odd' %}")


def test_copy_and_fold_escape_their_text() -> None:
    evil = '"><script>alert(1)</script>' * 30
    for text in (render("{% copy t %}", t=evil), render("{% fold t %}", t=evil)):
        assert "<script" not in text
    assert render("{% copy t %}", t="") == ""
    assert "Show all" in render("{% fold t %}", t="word " * 200)
    assert "Show all" not in render("{% fold t %}", t="short")


def test_links_keep_the_other_parameters_and_drop_page_and_poll_token() -> None:
    path = "/operators/?q=a%26b&page=3&rev=y&view=all"
    assert render("{% query view='cause' %}", path) == "?q=a%26b&amp;view=cause"
    assert render("{% query q=None view=None %}", path) == "?filters=none"
    assert render("{% drop 'q' %}", path) == "?view=all"


def test_a_sort_link_begins_with_the_highest_and_turns_round_when_it_is_in_use() -> None:
    unused = render("{% sort_link 'versions' 'Versions' 'name' %}")
    assert 'href="?sort=-versions"' in unused
    assert "aria-sort" not in unused
    descending = render("{% sort_link 'versions' 'Versions' '-versions' %}")
    assert 'href="?sort=versions"' in descending
    assert 'aria-sort="descending"' in descending
    ascending = render("{% sort_link 'versions' 'Versions' 'versions' %}")
    assert 'href="?sort=-versions"' in ascending
    assert 'aria-sort="ascending"' in ascending


def test_an_unknown_icon_name_is_refused() -> None:
    with pytest.raises(ValueError, match="icon"):
        tags.icon("x'><script>")


def test_every_icon_that_templates_and_tags_name_is_in_the_sprite() -> None:
    from django.conf import settings

    root = settings.BASE_DIR
    sprite = set(re.findall(r'id="([a-z-]+)"', (root / "static/src/icons.svg").read_text()))
    named = {
        name for table in (tags.HEALTH, tags.STATES, tags.PILLS) for _, name, _ in table.values()
    }
    for template in (root / "templates").rglob("*.html"):
        text = template.read_text()
        named |= set(re.findall(r"\{% icon [\"']([a-z-]+)[\"']", text))
        named |= set(re.findall(r"icon_name=\"([a-z-]+)\"", text))
    assert named <= sprite


# --- polling -----------------------------------------------------------------------------------


def test_a_poll_is_answered_with_204_and_when_clusters_were_heard_from(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster, name="a", health="Failed")
    rev = _rev(reader.get("/operators/"))
    with django_assert_max_num_queries(3):  # session, user, clusters
        same = reader.get("/operators/", {"rev": rev}, headers={"HX-Request": "true"})
    assert same.status_code == 204
    assert json.loads(same["HX-Trigger"])["olm:seen"].keys() == {"prod"}
    Cluster.objects.update(revision=cluster.revision + 1)
    changed = reader.get("/operators/", {"rev": rev}, headers={"HX-Request": "true"})
    assert_fragment(changed)
    assert _rev(changed) != rev


def test_a_poll_token_in_a_plain_address_still_shows_the_page(reader: Client) -> None:
    make_cluster(name="prod")
    rev = _rev(reader.get("/operators/"))
    assert_page(reader.get("/operators/", {"rev": rev}))


def test_tokens_tell_parts_apart() -> None:
    assert revision_token("a", "bc") != revision_token("ab", "c")


def _rev(response: Any) -> str:
    found = re.search(r"rev=([0-9a-f]{18})", response.content.decode())
    assert found, "the page does not poll"
    return found[1]


def test_every_fragment_that_polls_has_an_id(reader: Client) -> None:
    make_cluster(name="prod")
    for path in PAGES:
        text = reader.get(path).content.decode()
        assert "data-live" in text
        assert read(reader.get(path)).ids.count("live") + text.count('id="overview"') == 1


def test_the_menu_of_many_clusters_lists_the_worst_ones_and_leads_to_all(reader: Client) -> None:
    for number in range(20):
        cluster = make_cluster(name=f"cluster-{number:02}")
        for failing in range(number):
            make_operator(cluster=cluster, name=f"operator-{failing}", health="Failed")
    text = reader.get("/activity/").content.decode()
    menu = text.partition('class="olm-cluster"')[2].partition("</details>")[0]
    assert re.findall(r"\?cluster=(cluster-\d+)", menu) == [
        f"cluster-{number:02}" for number in range(19, 15, -1)
    ]
    assert "4 of 20 clusters, worst first" in menu
    everything = '<a href="/"><span class="olm-menu-main">All 20 clusters</span></a>'
    assert menu.index(everything) < menu.index("4 of 20 clusters, worst first")


def test_the_frame_of_the_errors_without_a_shell_shares_its_class_with_nothing() -> None:
    """Two rules of one class undo each other's margins."""
    frame = re.search(r'<main class="([\w-]+)[ "]', render_to_string("500.html"))
    assert frame
    css = "".join(path.read_text() for path in (settings.BASE_DIR / "static/src").glob("*.css"))
    assert len(re.findall(rf"\.{frame[1]}(?![\w-])", css)) == 1
    templates = [path.read_text() for path in (settings.BASE_DIR / "templates").rglob("*.html")]
    assert sum(bool(re.search(rf"[\" ]{frame[1]}[\" ]", text)) for text in templates) == 1


def test_the_api_docs_show_code_and_no_backticks(reader: Client) -> None:
    markup = reader.get("/api/v1/docs").content.decode()
    assert "<code>Idempotency-Key</code>" in markup
    assert "`" not in markup


class Shown:
    """A value that a page shows."""


def test_the_memory_of_a_page_is_free_without_the_garbage_collector(rf: RequestFactory) -> None:
    value = Shown()
    seen = weakref.ref(value)
    request = rf.get("/")
    request.user = AnonymousUser()
    gc.disable()
    try:
        response = render_page(request, "404.html", {"value": value})
        assert "This page does not exist." in response.render().text
        del response, value
        assert seen() is None
    finally:
        gc.enable()

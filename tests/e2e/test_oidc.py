"""Sign-in with a real OpenID provider in a real browser: there, back, and out again."""

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.product import product_folder, serve
from tests.worlds.oidc_provider import provider

pytestmark = pytest.mark.e2e


def test_a_person_signs_in_at_the_provider_works_and_signs_out(browser: Browser) -> None:
    with provider() as idp, product_folder() as folder:
        idp.set_user("s-1", preferred_username="olga", groups=["sre"])
        environment = {
            "KUBECONFIG": str(folder / "kubeconfig"),
            "OLMWEB_CLUSTERS": "sandbox=sandbox",
            "OLMWEB_OIDC_ISSUER": idp.issuer,
            "OLMWEB_OIDC_CLIENT_ID": "olmweb",
            "OLMWEB_OIDC_CLIENT_SECRET": "secret",
            "OLMWEB_OIDC_ROLES": "sre=operator",
        }
        with serve(folder, environment, "--demo") as product:
            context = browser.new_context(base_url=product.url)
            errors: list[str] = []
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "console",
                lambda one: (
                    errors.append(one.text)
                    if one.type == "error" and product.url in one.location["url"]
                    else None
                ),
            )
            page.goto("/operators/?view=all&q=3scale")
            host = idp.issuer.removeprefix("http://")
            page.get_by_role("link", name=f"Sign in with {host}").click()
            page.get_by_placeholder("sub").fill("s-1")
            page.get_by_role("button", name="Authorize").click()

            page.wait_for_url("**/operators/?view=all&q=3scale")
            page.get_by_role("link", name="3scale-operator", exact=True).first.click()
            page.get_by_role("main").locator("summary", has_text="Actions").click()
            expect(page.get_by_role("link", name="Remove", exact=True)).to_be_visible()

            page.locator("summary", has_text="olga").click()
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Signed out")
            page.get_by_role("link", name=f"Sign out of {host} too").click()
            page.wait_for_url(f"{idp.issuer}/oauth2/end_session?**")
            page.goto(f"{product.url}/operators/")
            page.wait_for_url("**/login/?next=/operators/")
            context.close()
            assert not errors

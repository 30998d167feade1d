from auth import after_login


def test_the_page_before_the_login_opens():
    assert after_login({"next": "/cart"}) == "/cart"


def test_another_site_does_not_open():
    assert after_login({"next": "https://evil.example/"}) == "/home"

from urllib.parse import urlsplit

HOME = "/home"


def after_login(query):
    """Return the path to open after a login."""
    target = query.get("next", HOME)
    if urlsplit(target).netloc:
        return HOME
    return target


def after_logout(query):
    """Return the path to open after a logout."""
    return "/"

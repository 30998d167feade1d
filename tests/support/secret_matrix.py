"""Detection of secret shapes in the contexts in which they occur in a session.

``python tests/support/secret_matrix.py --write`` puts the table into docs/explanation/secrets.md.
"""

import argparse
import json
import re
import sys
import urllib.parse

from places import ROOT
from secret_shapes import Shape, nested

from gitsession.codec import payload
from gitsession.model.entries import Custom
from gitsession.redaction.guard import Guard
from gitsession.redaction.scan import RULES, Scanner

PAGE = ROOT / "docs/explanation/secrets.md"
BEGIN, END = "<!-- begin: tests/support/secret_matrix.py -->\n", "<!-- end: tests/support/secret_matrix.py -->\n"

_TOKENS = re.findall(r"\S+", """
    aws-access-key gcp-api-key google-oauth-token google-client-secret azure-client-secret digitalocean-token
    databricks-token supabase-key vault-token terraform-token tailscale-key github-token github-fine-grained-token
    gitlab-token atlassian-token slack-token slack-app-token slack-webhook discord-webhook telegram-token stripe-key
    square-access-token shopify-token anthropic-key openrouter-key openai-key huggingface-token groq-key xai-key
    nvidia-key npm-token pypi-token rubygems-key docker-token sendgrid-key mailgun-key mailchimp-key twilio-key
    notion-token airtable-token jwt private-key-in-base64
""")  # fmt: skip

_PLACES = {
    ".env password": "DB_PASSWORD={an:14}",
    "quoted password": "export PGPASSWORD='{an:16}!'",
    "YAML password": "password: {an:18}",
    ".env key": "API_KEY={an:32}",
    "secret in code": 'client_secret = "{an:40}"',
    "JSON token": '{{"access_token": "{url:40}"}}',
    "AWS secret key": "aws_secret_access_key = {an:40}",
    "signingKey": 'signingKey: "{an:40}"',
    "encryptionKey": 'const encryptionKey = "{an:32}"',
    "privateKey": '{{"privateKey": "{hex:64}"}}',
    "bearer header": "Authorization: Bearer {an:40}",
    "API key header": "X-Api-Key: {an:32}",
    "cookie": "Cookie: session={an:40}; theme=dark",
    "curl -u": "curl -s -u admin:{an:16} https://acme.dev/",
    "mysql -p": "mysql -h db.acme.dev -u app -p{an:16} main",
    "redis-cli -a": "redis-cli -h cache.acme.dev -a {an:20} ping",
    "redis-cli --pass": "redis-cli --user app --pass '{an:20}' -n 2",
    "sshpass": "sshpass -p '{an:14}' ssh deploy@acme.dev",
    "htpasswd command": "htpasswd -b .htpasswd deploy {an:14}",
    "htpasswd file": "deploy:$apr1${an:8}${an:22}",
    "docker login -p": "docker login -u app -p {an:20} registry.acme.dev",
    "--password": "app deploy --password {an:16} --verbose",
    "--token": "app deploy --token {an:32} --verbose",
    "PHP define": "define('DB_PASSWORD', '{an:16}');",
    "SQL PASSWORD": "CREATE USER app WITH PASSWORD '{an:16}';",
    "SQL IDENTIFIED BY": "CREATE USER 'app' IDENTIFIED BY '{an:16}';",
    "XML password": "<server><password>{an:16}</password></server>",
    "pgpass": "db.acme.dev:5432:main:app:{an:16}",
    "netrc": "machine acme.dev\n  login deploy\n  password {an:16}",
    "npmrc": "//registry.acme.dev/:_authToken={an:36}",
    "registry auth": '{{"auths": {{"registry.acme.dev": {{"auth": "{pair}"}}}}}}',
    "login call": "client.login('{an:32}');",
    "WireGuard": "[Interface]\nPrivateKey = {an:43}=\nAddress = 10.0.0.2/32",
    "Terraform default": 'variable "db_password" {{\n  type    = string\n  default = "{an:18}"\n}}',
    "database URL": "postgres://app:{an:16}@db.internal:5432/main",
    "cache URL": "redis://:{an:20}@cache:6379/0",
    "token in URL": "https://{an:40}@github.com/acme/x.git",
    "signed URL": "https://acme.s3.amazonaws.com/f?X-Amz-Expires=60&X-Amz-Signature={hex:64}",
    "connection string": "Server=db;Database=x;User Id=app;Password={an:14};Encrypt=yes",
    "storage account": "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={an:86}==;EndpointSuffix=x.net",
    "PEM key": "-----BEGIN RSA PRIVATE KEY-----\n{an:64}\n{an:64}\n{an:20}==\n-----END RSA PRIVATE KEY-----",
    "OpenSSH key": "-----BEGIN OPENSSH PRIVATE KEY-----\n{an:70}\n{an:70}\n{an:40}=\n-----END OPENSSH PRIVATE KEY-----",
    "PGP key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{an:64}\n{an:64}\n={an:4}\n"
    "-----END PGP PRIVATE KEY BLOCK-----",
    "PuTTY key": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 1\n{pub:64}\n"
    "Private-Lines: 2\n{an:64}\n{an:32}\nPrivate-MAC: {hex:64}",
}  # fmt: skip


def shapes():
    """Return the templates by name: one for each common kind of token, and one for each text that marks a secret."""
    samples = {rule.name: rule.samples[0] for rule in RULES}
    return {**{name: samples[name] for name in _TOKENS}, **_PLACES}


def _lines(text, mark):
    """Return ``text`` with a prefix on each line. ``mark`` is called with the line number and returns the prefix."""
    return "\n".join(mark(number) + line for number, line in enumerate(("first", *text.split("\n"), "last"), 9))


def _coloured(text):
    """Return ``text`` as a highlighter prints it: each word and each sign has its own color."""
    colour = lambda found: f"\x1b[38;5;{len(found[0]) % 7 + 30}m{found[0]}\x1b[39m"  # noqa: E731
    return re.sub(r"\w+|[^\w\s]+", colour, text)


def _wrapped(text, width):
    """Return ``text`` as a terminal of ``width`` columns shows it."""
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(len(line), 1), width))


_ESCAPED = "as `\\u001b` in JSON"

CONTEXTS = {
    "alone": lambda text: text,
    "in a sentence": lambda text: f"I tried it with {text} and it answered.",
    "output of a command": lambda text: f"$ cat settings\n{text}\n$ ",
    "fenced code": lambda text: f"Run this:\n```\n{text}\n```\n",
    "CRLF": lambda text: f"a\n{text}\nb\n".replace("\n", "\r\n"),
    "commented out": lambda text: _lines(text, lambda _: "# "),
    "quoted, `> `": lambda text: _lines(text, lambda _: "> "),
    "quoted twice, `> > `": lambda text: _lines(text, lambda _: "> > "),
    "added in a diff": lambda text: _lines(text, lambda _: "+"),
    "added in a diff, behind a `+`": lambda text: _lines(text, lambda _: "++"),
    "removed in a diff": lambda text: _lines(text, lambda _: "-"),
    "`cat -n`": lambda text: _lines(text, "{:6d}\t".format),
    "a read tool, `12→`": lambda text: _lines(text, "{:6d}\u2192".format),
    "`grep -n`": lambda text: _lines(text, "{}:".format),
    "`grep -n -A`": lambda text: _lines(text, "{}-".format),
    "`rg -n`": lambda text: _lines(text, "config/settings.py:{}:".format),
    "numbers and a bar": lambda text: _lines(text, "{:4d} \u2502 ".format),
    "coloured": lambda text: "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n")),
    "highlighted": _coloured,
    "a coloured diff": lambda text: _lines(text, lambda _: "\x1b[32m+\x1b[m\x1b[32m") + "\x1b[m",
    "`grep --color`": lambda text: "\n".join(f"\x1b[01;31m\x1b[K{line}\x1b[m\x1b[K" for line in text.split("\n")),
    "`bat`": lambda text: "\n".join(
        f"\x1b[38;5;238m{number:4d}\x1b[0m \x1b[38;5;238m\u2502\x1b[0m {_coloured(line)}"
        for number, line in enumerate(text.split("\n"), 1)
    ),
    "URL-encoded": lambda text: "https://acme.dev/?q=" + urllib.parse.quote(text, safe=""),
    "UTF-16": lambda text: text,
    "wrapped at 80 columns": lambda text: _wrapped(text, 80),
    "wrapped at 40 columns": lambda text: _wrapped(text, 40),
}  # fmt: skip


def is_hidden(template, context, scanner):
    """Return whether the secret is removed completely: in text, in JSON, in nested JSON, and in an entry."""
    shape = Shape(template)
    text = CONTEXTS[context](shape.text)
    if context == "UTF-16" and Guard(scanner).in_file(text.encode("utf-16")) is None:
        return False
    if context == "UTF-16":
        text = "\0".join(text)  # as a tool shows such a file
    parts = [part for each in shape.hidden for part in _parts(each, context)]
    payloads = [("md", text.encode()), ("cbor", payload.encode(Custom(at_ms=1, custom_type="x", data=text), bytes(16)))]
    payloads += [("jsonl", nested(text, levels).encode()) for levels in (1, 2)]
    for form, data in payloads:
        redacted = Guard(scanner).redact(form, data).payload
        if form == "jsonl":
            json.loads(redacted)
        left = re.sub(rb"\0|\\+u0000", b"", redacted)
        if any(part.encode() in left for part in parts):
            return False
    return True


def _parts(secret, context):
    """Return the parts of a secret that must not remain. A wrapped secret is cut into two parts."""
    if context.startswith("wrapped"):
        return [secret[: len(secret) // 2], secret[len(secret) // 2 :]]
    return [secret]


def missed(scanner):
    """Return the names of the shapes that are not detected, by context."""
    return {
        context: [name for name, template in shapes().items() if not is_hidden(template, context, scanner)]
        for context in CONTEXTS
    }


def table(found):
    """Return the table for the result of ``missed``, as Markdown."""
    count = len(shapes())
    rows = [f"{count} shapes in {len(found)} contexts; each as text, as JSON, as JSON in JSON, and as an entry.\n\n"]
    rows += ["| context | found | not found |\n|---|---|---|\n"]
    rows += [f"| {name} | {count - len(lost)} of {count} | {', '.join(lost)} |\n" for name, lost in found.items()]
    return "".join(rows)


def main():
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/explanation/secrets.md")
    asked = parser.parse_args()
    made = table(missed(Scanner()))
    if not asked.write:
        sys.stdout.write(made)
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + made + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()

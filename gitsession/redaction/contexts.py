"""Rules for secrets by their context: after a name, in a header, in a URL, or in a key file.

Only the value is redacted, so the text around it remains readable. The names are in lower case and match any case.
Values are checked (see ``heuristics``), because code often contains expressions such as ``password = get_password()``.
"""

from __future__ import annotations

import re

from gitsession.redaction import heuristics
from gitsession.redaction.rule import Check, Rule


def _context(
    name: str, pattern: bytes, words: tuple[bytes, ...], *samples: str, check: Check | None, never: tuple[str, ...] = ()
) -> Rule:
    return Rule(name, pattern, words, check, folds=True, is_token=False, samples=samples, never=never)


_QUOTE = rb"""\\{0,7}["'`]"""
_VALUE = rb"""(?P<secret>[^\s"'`\\<>,;]{4,1024})"""
_ASSIGNS = rb"""(?:\\{0,7}["'`])?\]?[ \t]{0,20}(?::=|=>|==?|:)[ \t]{0,20}"""
"""The text between a name and its value: in a shell, in code, in JSON (also within a JSON string), or in YAML."""

_ENDS = rb"[A-Za-z0-9_.-]{0,24}"
"""The rest of a name."""

_FLAG = rb"(?:-\w{1,8}[ ]+(?:\d{1,2}[ ]+)?)"
_HAS = rb"(?=" + _FLAG + rb"{0,5}-\w{0,6}"
_HAS_NO = _HAS.replace(b"?=", b"?!")
_HTPASSWD = (
    rb"htpasswd[ ]+(?:[^\s-]\S{0,200}[ ]+)?" + _HAS + rb"b)"
    rb"(?:" + _HAS + rb"n)" + _FLAG + rb"{1,6}+|" + _HAS_NO + rb"n)" + _FLAG + rb"{1,6}+\S{1,200}[ ]+)\S{1,100}[ ]+"
)
"""The part of a `htpasswd -b` command before the password.

With the option ``-n``, there is no file argument. In `docker run --entrypoint htpasswd`, the name of an image follows.
"""

_NO_PROSE = (
    rb"(?!(?:[A-Z]?[a-z]+|[A-Z]+)[.,]?[ ]+"
    rb"(?!(?:ssh|scp|sftp|rsync|sudo|ansible|git|autossh|mosh|lftp|curl)\b)[a-z]{2,}[ ,.])"
)
"""A lookahead that excludes prose. A real password is followed by the command that ``sshpass`` runs, or by nothing."""

_P_OPTION = re.compile(rb"(?:thread|edantic|lugin|rotocol|refix|ersist|arents|rofile|roject|rint)[a-z=-]*")
"""The rest of an option that begins with ``-p`` and belongs to another command."""

CONTEXTS = (
    # ---- key files
    Rule(
        "private-key",
        rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        rb"(?:[^-]|-(?!----)){0,40000}?(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|(?=-----)|\Z)",
        (b"-----BEGIN ",),
        is_token=False,
        check=lambda value: len(value) > 80,
        samples=(
            "-----BEGIN RSA PRIVATE KEY-----\n{an:64}\n{an:64}\n{an:20}==\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{an:70}\n{an:70}\n{an:40}=\n-----END OPENSSH PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\n{an:64}\n{an:64}\n-----END PRIVATE KEY-----",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{an:64}\n{an:64}\n={an:4}\n"
            "-----END PGP PRIVATE KEY BLOCK-----",
            "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{AN:32}\n\n{an:64}\n"
            "-----END EC PRIVATE KEY-----",
        ),
        never=("-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",),
    ),
    Rule(
        "putty-key",
        rb"PuTTY-User-Key-File-\d+: (?s:.){0,8000}?Private-Lines: *\d+\s+(?P<secret>(?:[A-Za-z0-9+/=]{4,64}\s+)+"
        rb"(?:Private-MAC: *[0-9a-f]+)?)",
        (b"PuTTY-User-Key-File-",),
        is_token=False,
        samples=(
            "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 1\n{pub:64}\n"
            "Private-Lines: 2\n{an:64}\n{an:32}\nPrivate-MAC: {hex:64}",
        ),
    ),
    # ---- headers
    _context(
        "authorization-header",
        rb"(?i:authorization|x-api-key|x-auth-token|private-token|x-access-token|api-key|x-goog-api-key"
        rb"|x-vault-token|x-gitlab-token)" + _ASSIGNS + rb"(?:\\{0,7}[\"'`])?"
        rb"(?i:(?:bearer|basic|token|apikey|api-key|bot|key|digest|negotiate|aws)[ \t]+)?"
        rb"(?P<secret>[A-Za-z0-9._~+/:=-]{12,1024})",
        (
            b"authorization",
            b"x-api-key",
            b"x-auth-token",
            b"private-token",
            b"x-access-token",
            b"api-key",
            b"x-goog-api-key",
        ),
        "Authorization: Bearer {an:40}",
        "authorization: token {hex:40}",
        '"Authorization": "Basic {pair}"',
        "X-Api-Key: {an:32}",
        "PRIVATE-TOKEN: {an:20}",
        check=lambda value: heuristics.is_random(value) or heuristics.is_pair(value),
        never=("Authorization: Bearer $TOKEN", "Authorization: Bearer YOUR_API_KEY", "authorization: null"),
    ),
    _context(
        "bearer-token",
        rb"(?i:bearer) {1,3}(?P<secret>[A-Za-z0-9._~+/-]{20,1024}={0,2})",
        (b"bearer ",),
        "bearer {an:40}",
        check=heuristics.is_random,
        never=("bearer authentication-is-required-here",),
    ),
    _context(
        "cookie-header",
        rb"(?i:cookie)" + _ASSIGNS + rb"""(?:\\{0,7}["'`])?(?P<secret>[!-:<-~]{1,80}=[^\s"'`\\]{16,1024}"""
        rb"""(?:; ?[^\s"'`\\;=]{1,80}(?:=[^\s"'`\\;]*)?){0,60})""",
        (b"cookie",),
        "Cookie: session={an:40}; theme=dark",
        "Set-Cookie: sid={hex:32}; Path=/; HttpOnly",
        check=lambda value: any(heuristics.is_random(part.partition(b"=")[2].strip()) for part in value.split(b";")),
        never=("cookie: theme=dark-mode-is-what-i-like",),
    ),
    # ---- URLs, connection strings, commands and configuration files
    _context(
        "url-password",
        rb"""://[^\s/@:"'`<>\\?#\[]{0,200}:(?P<secret>[^\s/@"'`<>\\]{3,400})@(?=[A-Za-z0-9.\[_-])""",
        (b"://",),
        "postgres://app:{an:16}@db.internal:5432/main",
        "mongodb+srv://root:{an:12}@cluster0.mongodb.net/x",
        "redis://:{an:20}@cache:6379/0",
        "https://deploy:{an:24}@git.acme.dev/x.git",
        "amqp://worker:{an:14}@mq:5672",
        check=lambda value: not heuristics.is_placeholder(value) and not value.isdigit() and value[:1] not in b"$%{[(*",
        never=("https://user:password@host/", "postgres://user:$PASS@host/db", "http://{user}:{password}@{host}"),
    ),
    _context(
        "url-token",
        rb"://(?P<secret>[A-Za-z0-9_-]{20,255})(?::x-oauth-basic)?@(?=[A-Za-z0-9.\[_-])",
        (b"://",),
        "https://{an:40}@github.com/acme/x.git",
        check=heuristics.is_random,
    ),
    Rule(
        "url-signature",
        rb"(?<![^?&_ -])(?i:sig(?:nature)?)=(?P<secret>[A-Za-z0-9%+/_.~-]{20,1024}={0,2})",
        (b"sig=", b"Sig=", b"SIG=", b"signature=", b"Signature=", b"SIGNATURE="),
        heuristics.is_random,
        samples=(
            "https://acme.blob.core.windows.net/c/f?sv=2024-01-01&se=2026-01-01&sig={an:43}%3D",
            "https://acme.s3.amazonaws.com/f?X-Amz-Expires=60&X-Amz-Signature={hex:64}",
        ),
    ),
    _context(
        "azure-account-key",
        rb"(?i:(?:account|sharedaccess)key)=(?P<secret>[A-Za-z0-9+/]{43,1024}={0,2})",
        (b"accountkey=", b"sharedaccesskey="),
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={an:86}==;EndpointSuffix=core.windows.net",
        "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={an:43}=",
        check=None,
    ),
    _context(
        "connection-password",
        rb"(?i:(?:password|pwd)) ?= ?(?P<secret>[^\s\"'`\\;<>]{4,1024}+)(?=;|\\{0,7}[\"'`])",
        (b"password=", b"pwd=", b"password =", b"pwd ="),
        "Server=db;Database=x;User Id=app;Password={an:14};Encrypt=yes",
        check=heuristics.is_chosen,
        never=("Server=db;User Id=app;Password=password;",),
    ),
    _context(
        "command-line-password",
        rb"""(?i:curl)\b[^\n|;]{0,300}? (?:-u|--user|--proxy-user)[ =]{1,3}(?:\\{0,7}["'])?"""
        rb"""[^\s:"'\\]{1,80}:"""
        rb"""(?P<secret>[^\s"'\\]{4,1024})""",
        (b"curl ",),
        "curl -s -u admin:{an:16} https://acme.dev/",
        check=heuristics.is_chosen,
        never=("curl -u user:password https://acme.dev", "curl -u $USER:$PASS x"),
    ),
    _context(
        "mysql-password",
        rb"""(?i:mysql)[\w-]{0,12} [^\n|;]{0,300}?(?<= )-p(?:\\{0,7}["'])?(?P<secret>[^\s"'\\]{4,1024})""",
        (b"mysql",),
        "mysql -h db -u app -p{an:16} main",
        "mysqldump -uroot -p'{an:12}' main > dump.sql",
        check=lambda value: heuristics.is_argument(value) and not _P_OPTION.match(value),
        never=(
            "cc $(mysql_config --libs) -pthread -pedantic-errors",
            "mysql -u root -p main",
            "mysql -u root -p$PASSWORD",
            "mysqladmin -port",
        ),
    ),
    _context(
        "redis-password",
        rb"""redis-cli [^\n|;]{0,300}?(?<= )(?:-a|--pass)[ =]{1,3}(?:\\{0,7}["'])?(?P<secret>[^\s"'`\\]{4,1024})""",
        (b"redis-cli ",),
        "redis-cli -h cache -a {an:20} ping",
        "redis-cli --user app --pass '{an:20}' -n 2",
        check=heuristics.is_chosen,
        never=("redis-cli -a $PASSWORD ping", "redis-cli -a <password>", "redis-cli --askpass -h cache.acme.dev"),
    ),
    _context(
        "sshpass-password",
        rb"(?:sshpass[ ]+-p[ ]?|"
        + _HTPASSWD
        + rb""")(?:\\{0,7}["'])?"""
        + _NO_PROSE
        + rb"""(?P<secret>[^\s"'\\]{4,1024})""",
        (b"sshpass ", b"htpasswd "),
        "sshpass -p '{an:14}' ssh deploy@acme.dev",
        "htpasswd -bc .htpasswd deploy {an:14}",
        "htpasswd -nbB admin {an:14}",
        "htpasswd -n -b -C 10 admin '{an:14}' > users",
        "docker run --rm --entrypoint htpasswd httpd:2 -Bbn admin {an:14}",
        check=heuristics.is_argument,
        never=(
            "the flag of sshpass -p argument shows it",
            "htpasswd -b mode expects arguments that anybody sees",
            "sshpass -p YOURPASSWORD ssh host",
            "sshpass -p $PASS ssh host",
            "htpasswd -b file user password",
            "htpasswd -nb admin $PASS >out9.txt",
        ),
    ),
    _context(
        "docker-password",
        rb"""(?i:docker) login\b[^\n|;]{0,300}? (?:-p|--password)[ =]{1,3}(?:\\{0,7}["'])?"""
        rb"""(?P<secret>[^\s"'`\\]{4,1024})""",
        (b"docker login",),
        "docker login -u app -p {an:20} registry.acme.dev",
        check=heuristics.is_chosen,
        never=("docker login -u app -p $TOKEN", "docker login -p <password>"),
    ),
    _context(
        "option-password",
        rb"""(?<=-)(?i:password|passwd|passphrase|pwd) {1,3}(?:\\{0,7}["'])?(?P<secret>[^\s"'`\\<>,;]{8,1024})""",
        (b"password", b"passwd", b"passphrase", b"pwd"),
        "app deploy --password {an:16} --verbose",
        check=lambda value: heuristics.is_password(value) and value[:1] not in b"-/(",
        never=("--password $PASSWORD", "--password <password>", "--password changeme", "--password --verbose-2"),
    ),
    _context(
        "option-token",
        rb"""(?<=-)(?i:token|api-key|secret|secret-key|access-key|auth-key) {1,3}(?:\\{0,7}["'])?"""
        rb"""(?P<secret>[^\s"'`\\<>,;]{16,1024})""",
        (b"token", b"api-key", b"secret", b"access-key", b"auth-key"),
        "app deploy --token {an:32} --verbose",
        "app deploy --api-key '{hex:40}'",
        check=heuristics.is_random,
        never=("--token $TOKEN", "--token <token>", "--api-key xxxxxxxxxxxxxxxxxxxx"),
    ),
    _context(
        "defined-password",
        rb"(?-i:PASSWORD|PASSWD|PASSPHRASE)[A-Z0-9_]{0,24}"
        + (_QUOTE + rb"[ \t]{0,9},[ \t]{0,9}" + _QUOTE + rb"(?P<secret>[^\s\"'`\\<>]{8,200})" + _QUOTE),
        (b"password", b"passwd", b"passphrase"),
        "define('DB_PASSWORD', '{an:16}');",
        check=heuristics.is_password,
        never=("define('DB_PASSWORD', 'password_here');", "define('DB_PASSWORD', getenv('DB_PASSWORD'));"),
    ),
    _context(
        "sql-password",
        rb"(?i:password|identified by)[ \t]{1,9}\\{0,7}'(?P<secret>[^\s\"'`\\<>]{8,200})\\{0,7}'",
        (b"password", b"identified by"),
        "CREATE USER app WITH PASSWORD '{an:16}';",
        "CREATE USER 'app'@'%' IDENTIFIED BY '{an:16}';",
        check=heuristics.is_password,
        never=("CREATE USER app WITH PASSWORD 'changeme';", "IDENTIFIED BY '$PASSWORD'", "the password 'username'"),
    ),
    _context(
        "element-password",
        rb"(?i:password|passwd|passphrase)>(?P<secret>[^\s\"'`\\<>&]{8,1024})</",
        (b"password", b"passwd", b"passphrase"),
        "<server><password>{an:16}</password></server>",
        check=heuristics.is_password,
        never=("<password>your-password</password>", "<password>${{env.PASSWORD}}</password>"),
    ),
    _context(
        "pgpass-password",
        rb"(?:(?<=:)|(?<=:\d))(?:543\d{1,2}|6432|6543|26257|2506[01])"
        rb":[^\s:]{1,64}:[^\s:]{1,64}:(?P<secret>[^\s:\"'`\\]{4,1024})",
        (b"543", b"6432:", b"6543:", b"26257:", b"2506"),
        "db.acme.dev:5432:main:app:{an:16}",
        "localhost:6432:*:app:{an:16}",
        "localhost:5433:main:app:{an:16}",
        "127.0.0.1:15432:main:app:{an:16}",
        "localhost:54322:postgres:app:{an:16}",
        check=heuristics.is_chosen,
        never=("localhost:5433:database:username:password", "~/.pgpass: hostname:port:database:username:passw0rd"),
    ),
    _context(
        "login-password",
        rb"""\.login\(\s{0,20}(?:[^()\n,]{1,100},\s{0,20})?\\{0,7}["'`](?P<secret>[^\s"'`\\]{8,200})\\{0,7}["'`]\s{0,20}\)""",
        (b".login(",),
        "client.login('{an:32}')",
        'server.login("me@acme.dev", "{an:14}")',
        check=lambda value: heuristics.is_random(value) or (heuristics.is_password(value) and b"@" not in value),
        never=("client.login('your-token-here')", "client.login(process.env.TOKEN)", "s.login('me@acme.dev')"),
    ),
    _context(
        "wireguard-key",
        rb"(?i:(?:private|preshared)key)[ \t]{0,9}=[ \t]{0,9}(?P<secret>[A-Za-z0-9+/]{43}=)",
        (b"privatekey", b"presharedkey"),
        "[Interface]\nPrivateKey = {an:43}=",
        "PresharedKey={an:43}=",
        check=heuristics.is_random,
    ),
    Rule(
        "argon2-hash",
        rb"\$argon2(?:id|i|d)\$v=\d{1,10}\$[mtp=,\d]{1,80}\$[A-Za-z0-9+/]{11,200}\$[A-Za-z0-9+/]{22,400}",
        (b"$argon2",),
        is_token=False,  # its parameters contain commas, which end a run
        samples=(
            "deploy:$argon2id$v=19$m=65536,t=3,p=4${an:22}${an:43}",
            "$argon2i$v=19$m=4096,t=3,p=1${an:22}${an:43}",
        ),
    ),
    _context(
        "terraform-default",
        rb"variable[ \t]{1,9}"
        + _QUOTE
        + rb"[^\"\\\n{}]{0,80}(?i:passw|secret|token|key|passphrase|credential|pwd)[^\"\\\n{}]{0,80}"
        + _QUOTE
        + rb"\s{0,9}\{[^{}]{0,400}?default[ \t]{0,20}=[ \t]{0,9}"
        + _QUOTE
        + rb"(?P<secret>[^\"\\\n]{4,200})"
        + _QUOTE,
        (b"variable ", b"variable\t"),
        'variable "db_password" {{\n  type = string\n  default = "{an:18}"\n}}',
        check=heuristics.is_chosen,
        never=('variable "key_name" {\n  default = "my-deploy-key"\n}',),
    ),
    _context(
        "netrc-password",
        rb"login[ \t]+\S{1,200}\s+password[ \t]+(?P<secret>\S{4,1024})",
        (b"login ", b"login\t"),
        "machine acme.dev login deploy password {an:16}",
        check=heuristics.is_chosen,
    ),
    _context(
        "npmrc-auth",
        rb"_(?:auth[Tt]oken|auth|password)[ \t]*=[ \t]*(?P<secret>[^\s\"'$\\]{12,1024})",
        (b"_authtoken", b"_auth", b"_password"),
        "//registry.acme.dev/:_authToken={an:36}",
        "_auth={pair}",
        check=lambda value: heuristics.is_random(value) or heuristics.is_pair(value),
    ),
    _context(
        "registry-auth",
        rb"(?i:auth)" + _QUOTE + rb"[ \t]{0,9}:\s{0,20}" + _QUOTE + rb"(?P<secret>[A-Za-z0-9+/]{12,1024}={0,2})",
        (b"auth",),
        '{{"auths": {{"registry.acme.dev": {{"auth": "{pair}"}}}}}}',
        check=heuristics.is_pair,
    ),
    _context(
        "discord-token",
        rb"(?i:discord)[^\n]{0,60}?(?P<secret>[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38})(?![\w-])",
        (b"discord",),
        "DISCORD_TOKEN=M{an:23}.{an:6}.{url:38}",
        check=None,
    ),
    _context(
        "aws-secret-key",
        rb"(?i:secret_?(?:access_?)?key)(?:\\{0,7}[\"'`])?\s{0,9}(?:=>|=|:|,)\s{0,9}(?:\\{0,7}[\"'`])?"
        rb"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        (b"secret_access_key", b"secretaccesskey", b"secret_key", b"secretkey"),
        "AWS_SECRET_ACCESS_KEY={an:40}",
        "aws_secret_access_key = {an:40}",
        '"SecretAccessKey": "{an:40}"',
        check=heuristics.is_random,
    ),
    # ---- assignments
    _context(
        "assigned-password",
        rb"(?i:passw(?:or)?d|passphrase|passwd|pwd|_pass)" + _ENDS + _ASSIGNS + rb"(?:\\{0,7}[\"'`])?" + _VALUE,
        (b"password", b"passwd", b"passphrase", b"pwd", b"_pass", b"passwrd"),
        "DB_PASSWORD={an:14}",
        "export PGPASSWORD='{an:16}!'",
        "password: {an:18}",
        'SMTP_PASS="{an:12}#9"',
        check=heuristics.is_password,
        never=("password = getpass.getpass()", "password: string", "PASSWORD=$1", "password = self._password"),
    ),
    _context(
        "assigned-token",
        rb"(?i:token|secret|credential|api[_-]?key|apikey|access[_-]?key|auth[_-]?key|private[_-]?key|signing[_-]?key"
        rb"|encryption[_-]?key|master[_-]?key|service[_-]?key|account[_-]?key|[A-Z0-9]_key|_pat(?![a-z]))"
        + _ENDS
        + _ASSIGNS
        + rb"(?:\\{0,7}[\"'`])?"
        + _VALUE,
        (
            *(b"token", b"secret", b"credential", b"apikey", b"_key", b"-key", b"_pat", b"accesskey", b"authkey"),
            *(b"privatekey", b"signingkey", b"encryptionkey", b"masterkey", b"servicekey", b"accountkey"),
        ),
        "API_KEY={an:32}",
        "SESSION_SECRET={hex:64}",
        'token = "{url:40}"',
        "ACME_TOKEN='{an:24}'",
        '"client_secret": "{an:40}"',
        "GH_PAT={an:40}",
        'signingKey: "{an:32}"',
        'const encryptionKey = "{an:32}"',
        '"privateKey": "{hex:64}"',
        check=heuristics.is_random,
        never=(
            "token = request.headers.get('x')",
            "next_token: NextToken",
            "max_tokens = 4096",
            '"agent_path": "0b5c4c9e-93d1-7a8e-b3f2-5d1f0a7c6e42"',
            "secret_key = settings.SECRET_KEY",
        ),
    ),
    _context(
        "assigned-key",
        rb"(?<![A-Za-z0-9])(?-i:KEY|Key|key)(?:\\{0,7}[\"'`])?[ \t]?[=:][ \t]?(?:\\{0,7}[\"'`])?" + _VALUE,
        (b"key",),
        "KEY={an:40}",
        "key: {an:40}",
        check=lambda value: len(value) >= 24 and heuristics.is_random(value),
        never=("key=lambda row: row.name", "cache-key: node-modules-cache-v2-linux-x64"),
    ),
)

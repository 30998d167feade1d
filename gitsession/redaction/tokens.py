"""Rules for tokens that are recognized by their format: a prefix that the issuer chose, and a number of characters.

Each rule has a name, a pattern, the words at which it is tried, and ``samples``, which are templates
(``Rule.samples``).
"""

from __future__ import annotations

from gitsession.redaction import heuristics
from gitsession.redaction.heuristics import is_random
from gitsession.redaction.rule import Check, Rule

_ALONE = rb"(?<![A-Za-z0-9])"
"""A position that does not follow a letter or digit."""


def _token(name: str, pattern: bytes, words: str, *samples: str, check: Check | None = None, before: int = 0) -> Rule:
    return Rule(name, pattern, tuple(words.encode().split()), check, before, samples=samples)


TOKENS = (
    # ---- clouds
    _token(
        "aws-access-key",
        rb"(?<![A-Za-z0-9+/])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9+/=])",
        "AKIA ASIA ABIA ACCA",
        "AKIA{b32:16}",
        "ASIA{b32:16}",
        check=lambda value: not value.endswith(b"EXAMPLE"),
    ),
    _token("aws-bedrock-key", rb"ABSK[A-Za-z0-9+/]{100,}={0,2}", "ABSK", "ABSK{an:128}="),
    _token("gcp-api-key", rb"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])", "AIza", "AIza{url:34}x"),
    _token("google-oauth-token", rb"ya29\.[A-Za-z0-9_-]{20,}", "ya29.", "ya29.{url:60}"),
    _token("google-refresh-token", _ALONE + rb"1//0[A-Za-z0-9_-]{30,}", "1//0", "1//0{url:60}"),
    _token("google-client-secret", rb"GOCSPX-[A-Za-z0-9_-]{28}", "GOCSPX-", "GOCSPX-{url:28}"),
    _token("azure-client-secret", rb"(?<=[\w~.-]{3}\d)Q~[\w~.-]{31,34}", "Q~", "{an:3}8Q~{an:34}", before=4),
    _token("azure-devops-token", rb"(?<=[A-Za-z0-9]{76})AZDO[A-Za-z0-9]{4}", "AZDO", "{an:76}AZDO{an:4}", before=76),
    _token(
        "azure-key",
        rb"(?<=[A-Za-z0-9]{52})JQQJ9[A-Za-z0-9]{23,27}={0,2}",
        "JQQJ9",
        "{an:52}JQQJ99{an:26}",
        before=52,
    ),
    _token("digitalocean-token", rb"do[oprt]_v1_[a-f0-9]{64}", "doo_v1_ dop_v1_ dor_v1_ dot_v1_", "dop_v1_{hex:64}"),
    _token("cloudflare-origin-key", rb"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}", "v1.0-", "v1.0-{hex:24}-{hex:146}"),
    _token("alibaba-access-key", _ALONE + rb"LTAI[A-Za-z0-9]{16,26}(?![A-Za-z0-9])", "LTAI", "LTAI5t{an:18}"),
    _token("tencent-secret-id", _ALONE + rb"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])", "AKID", "AKID{an:32}"),
    _token("heroku-key", rb"HRKU-(?:AA)?[A-Za-z0-9_-]{36,}", "HRKU-", "HRKU-AA{url:58}"),
    _token(
        "fly-token", rb"(?:fm[12][ar]?_[A-Za-z0-9+/=_-]{80,}|fo1_[A-Za-z0-9_-]{43})", "fm1 fm2_ fo1_", "fo1_{url:43}"
    ),
    _token(
        "vercel-blob-token", rb"vercel_blob_rw_[A-Za-z0-9_]{30,}", "vercel_blob_rw_", "vercel_blob_rw_{an:16}_{an:32}"
    ),
    _token("netlify-token", rb"nf[pcuo]_[A-Za-z0-9_-]{36,}", "nfp_ nfc_ nfu_ nfo_", "nfp_{an:36}"),
    _token("databricks-token", _ALONE + rb"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])", "dapi", "dapi{hex:32}"),
    _token(
        "supabase-key",
        rb"(?:sbp_(?:oauth_)?[a-f0-9]{40}|sb_secret_[\w-]{20,})",
        "sbp_ sb_secret_",
        "sbp_{hex:40}",
        "sb_secret_{url:31}",
    ),
    _token("planetscale-token", rb"pscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}", "pscale_", "pscale_tkn_{url:43}"),
    _token("neon-key", rb"napi_[a-z0-9]{60,}", "napi_", "napi_{low:64}"),
    _token("vault-token", _ALONE + rb"hv[sbr]\.[\w-]{24,}", "hvs. hvb. hvr.", "hvs.{url:90}", check=is_random),
    _token(
        "terraform-token",
        rb"(?<=[A-Za-z0-9]{14})\.atlasv1\.[\w=-]{60,}",
        ".atlasv1.",
        "{an:14}.atlasv1.{url:67}",
        before=14,
    ),
    _token(
        "doppler-token",
        rb"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        "dp.pt.{an:43}",
    ),
    _token("pulumi-token", rb"pul-[a-f0-9]{40}", "pul-", "pul-{hex:40}"),
    _token("onepassword-token", rb"ops_eyJ[A-Za-z0-9+/=_-]{200,}", "ops_eyJ", "ops_eyJ{an:260}"),
    _token("age-key", rb"AGE-SECRET-KEY-1[0-9A-Z]{58}", "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1{b32:58}"),
    _token("tailscale-key", rb"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}", "tskey-", "tskey-auth-{an:17}-{an:33}"),
    # ---- forges
    _token(
        "github-token",
        rb"gh[oprsu]_[A-Za-z0-9]{36,255}",
        "gho_ ghp_ ghr_ ghs_ ghu_",
        "ghp_{an:36}",
        "gho_{an:36}",
        "ghs_{an:36}",
    ),
    _token("github-fine-grained-token", rb"github_pat_[A-Za-z0-9_]{60,}", "github_pat_", "github_pat_{an:22}_{an:59}"),
    _token(
        "gitlab-token",
        rb"gl(?:pat|dt|rt|rtr|ptt|cbt|imt|agent|oas|ft|soat|ffct)-[\w.-]{20,}",
        "glpat- gldt- glrt- glrtr- glptt- glcbt- glimt- glagent- gloas- glft- glsoat- glffct-",
        "glpat-{url:20}",
        "glrt-{url:20}",
    ),
    _token("gitlab-runner-token", rb"GR1348941[\w-]{20}", "GR1348941", "GR1348941{url:20}"),
    _token(
        "bitbucket-token",
        rb"(?:ATBB[A-Za-z0-9]{24,}|ATCTT3xFfG[\w=+/-]{50,})",
        "ATBB ATCTT3xFfG",
        "ATBB{an:32}",
        check=is_random,
    ),
    _token("atlassian-token", rb"ATATT3[\w=-]{100,}", "ATATT3", "ATATT3xFfGF0{url:170}"),
    _token("sourcegraph-token", rb"sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}", "sgp_", "sgp_{hex:16}_{hex:40}"),
    # ---- chats
    _token(
        "slack-token",
        rb"xox[abceoprsd](?:\.xox[bp])?-[A-Za-z0-9%+/-]{10,}",
        "xox",
        "xoxb-{d:12}-{d:13}-{an:24}",
        "xoxp-{d:12}-{d:12}-{d:12}-{hex:32}",
    ),
    _token("slack-app-token", rb"xapp-\d-[A-Z0-9]+-\d+-[a-f0-9]{30,}", "xapp-", "xapp-1-A{b32:10}-{d:13}-{hex:64}"),
    _token(
        "slack-webhook",
        rb"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{30,})",
        "hooks.slack.com/",
        "https://hooks.slack.com/services/T{b32:8}/B{b32:10}/{an:24}",
    ),
    _token(
        "discord-webhook",
        rb"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/(?P<secret>[\w-]{60,})",
        "discord.com/api/ discordapp.com/api/",
        "https://discord.com/api/webhooks/{d:18}/{url:68}",
    ),
    _token("telegram-token", rb"(?<=\d{8}):AA[\w-]{32,34}(?![\w-])", ":AA", "{d:10}:AA{url:33}"),
    _token(
        "teams-webhook",
        rb"\.webhook\.office\.com/webhookb2/(?P<secret>[\w@-]+/IncomingWebhook/[\w-]+/[\w-]+)",
        ".webhook.office.com/",
        "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex:32}/{uuid}",
    ),
    _token("twitch-token", rb"oauth:[a-z0-9]{30}(?![a-z0-9])", "oauth:", "oauth:{low:30}"),
    # ---- payment
    _token(
        "stripe-key",
        rb"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,}",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_",
        "sk_live_{an:24}",
        "rk_test_{an:99}",
    ),
    _token("webhook-secret", rb"whsec_[A-Za-z0-9+/=]{24,}", "whsec_", "whsec_{an:32}"),
    _token(
        "square-token",
        rb"sq0(?:atp|csp|idp)-[\w-]{22,43}",
        "sq0atp- sq0csp- sq0idp-",
        "sq0atp-{url:22}",
        "sq0csp-{url:43}",
    ),
    _token("square-access-token", rb"(?<![\w+/-])EAAA[\w-]{60}(?![\w+/=-])", "EAAA", "EAAA{url:60}"),
    _token("shopify-token", rb"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "shpat_ shpca_ shppa_ shpss_", "shpat_{hex:32}"),
    _token(
        "plaid-token",
        rb"access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}",
        "access-sandbox- access-development- access-production-",
        "access-production-{uuid}",
    ),
    _token("razorpay-key", rb"rzp_(?:live|test)_[A-Za-z0-9]{14,}", "rzp_live_ rzp_test_", "rzp_live_{an:14}"),
    _token("flutterwave-key", rb"FLWSECK(?:_TEST)?-[a-zA-Z0-9-]{12,}", "FLWSECK", "FLWSECK_TEST-{an:32}-X"),
    _token("easypost-key", rb"EZ[AT]K[A-Za-z0-9]{54}", "EZAK EZTK", "EZAK{an:54}"),
    # ---- models
    _token("anthropic-key", rb"sk-ant-[\w-]{20,}", "sk-ant-", "sk-ant-api03-{url:93}AA", "sk-ant-oat01-{url:86}AA"),
    _token("openrouter-key", rb"sk-or-(?:v\d-)?[a-f0-9]{40,}", "sk-or-", "sk-or-v1-{hex:64}"),
    _token("langfuse-key", rb"sk-lf-[0-9a-f]{8}-[0-9a-f-]{27}", "sk-lf-", "sk-lf-{uuid}"),
    _token(
        "openai-key",
        rb"(?<![\w-])sk-(?:(?:proj|svcacct|admin|None|service)-)?[\w-]{20,}",
        "sk-",
        "sk-proj-{url:74}T3BlbkFJ{url:74}",
        "sk-{an:20}T3BlbkFJ{an:20}",
        "sk-{hex:32}",
        check=is_random,
    ),
    _token(
        "huggingface-token",
        rb"(?<![A-Za-z0-9])(?:hf_|api_org_)[A-Za-z0-9]{30,}",
        "hf_ api_org_",
        "hf_{an:34}",
        "api_org_{an:34}",
    ),
    _token("replicate-token", rb"(?<![A-Za-z0-9])r8_[A-Za-z0-9]{37}", "r8_", "r8_{an:37}"),
    _token("groq-key", rb"gsk_[A-Za-z0-9]{40,}", "gsk_", "gsk_{an:52}"),
    _token("xai-key", rb"xai-[A-Za-z0-9]{60,}", "xai-", "xai-{an:80}"),
    _token("perplexity-key", rb"pplx-[A-Za-z0-9]{40,}", "pplx-", "pplx-{an:48}"),
    _token("langsmith-key", rb"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}", "lsv2_", "lsv2_pt_{hex:32}_{hex:10}"),
    _token("elevenlabs-key", rb"(?<![A-Za-z0-9])sk_[a-f0-9]{48}(?![A-Za-z0-9])", "sk_", "sk_{hex:48}"),
    _token("nvidia-key", rb"nvapi-[\w-]{60,}", "nvapi-", "nvapi-{url:64}"),
    _token("cerebras-key", rb"(?<![A-Za-z0-9])csk-[a-z0-9]{40,}", "csk-", "csk-{low:48}"),
    _token("pinecone-key", rb"pcsk_[A-Za-z0-9_]{50,}", "pcsk_", "pcsk_{an:6}_{an:63}"),
    _token("tavily-key", rb"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}", "tvly-", "tvly-dev-{an:32}"),
    _token("firecrawl-key", rb"(?<![A-Za-z0-9])fc-[a-f0-9]{32}(?![a-f0-9])", "fc-", "fc-{hex:32}"),
    _token("fireworks-key", rb"(?<![A-Za-z0-9])fw_[A-Za-z0-9]{22,}", "fw_", "fw_{an:24}", check=is_random),
    _token("together-key", rb"tgp_v\d_[\w-]{40,}", "tgp_v", "tgp_v1_{url:43}"),
    _token("jina-key", rb"jina_[a-f0-9]{32}[\w-]{20,}", "jina_", "jina_{hex:32}{url:28}"),
    _token("voyage-key", rb"(?<![\w-])(?:pa|al)-[\w-]{43}(?![\w-])", "pa- al-", "pa-{url:43}", check=is_random),
    _token("e2b-key", rb"e2b_[a-f0-9]{40}", "e2b_", "e2b_{hex:40}"),
    # ---- registries
    _token("npm-token", rb"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", "npm_", "npm_{an:36}"),
    _token("pypi-token", rb"pypi-Ag[\w-]{50,}", "pypi-Ag", "pypi-AgEIcHlwaS5vcmc{url:120}"),
    _token("rubygems-key", rb"rubygems_[a-f0-9]{48}", "rubygems_", "rubygems_{hex:48}"),
    _token("crates-token", _ALONE + rb"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "cio", "cio{an:32}", check=is_random),
    _token("docker-token", rb"dckr_(?:pat|oat)_[\w-]{27,}", "dckr_", "dckr_pat_{url:27}"),
    _token("nuget-key", _ALONE + rb"oy2[a-z0-9]{43}(?![a-z0-9])", "oy2", "oy2{low:43}"),
    _token(
        "artifactory-key",
        _ALONE + rb"(?:AKCp[A-Za-z0-9]{60,}|cmVmdGtu[A-Za-z0-9]{50,})",
        "AKCp cmVmdGtu",
        "AKCp{an:69}",
        "cmVmdGtu{an:56}",
    ),
    _token("clojars-token", rb"CLOJARS_[a-z0-9]{60}", "CLOJARS_", "CLOJARS_{low:60}"),
    _token("sonar-token", rb"sq[uap]_[a-f0-9]{40}", "squ_ sqa_ sqp_", "squ_{hex:40}"),
    # ---- other services
    _token("sendgrid-key", rb"SG\.[\w-]{22}\.[\w-]{43}", "SG.", "SG.{url:22}.{url:43}"),
    _token("mailgun-key", _ALONE + rb"key-[a-f0-9]{32}(?![a-f0-9])", "key-", "key-{hex:32}"),
    _token("mailchimp-key", rb"(?<=[a-f0-9]{32})-us\d{1,2}(?!\w)", "-us", "{hex:32}-us12", before=32),
    _token("twilio-key", _ALONE + rb"SK[a-f0-9]{32}(?![a-f0-9])", "SK", "SK{hex:32}"),
    _token(
        "resend-key",
        _ALONE + rb"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}(?![A-Za-z0-9])",
        "re_",
        "re_{an:8}_{an:24}",
        check=is_random,
    ),
    _token("brevo-key", rb"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}", "xkeysib-", "xkeysib-{hex:64}-{an:16}"),
    _token(
        "newrelic-key", rb"NR(?:AK-[A-Z0-9]{27}|II-[\w-]{32}|JS-[a-f0-9]{19})", "NRAK- NRII- NRJS-", "NRAK-{b32:27}"
    ),
    _token(
        "grafana-token",
        rb"gl(?:sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|c_eyJ[A-Za-z0-9+/=]{30,})",
        "glsa_ glc_eyJ",
        "glsa_{an:32}_{hex:8}",
    ),
    _token("dynatrace-token", rb"dt0[cs]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}", "dt0c dt0s", "dt0c01.{b32:24}.{b32:64}"),
    _token(
        "sentry-token", rb"sntry(?:s_eyJ[A-Za-z0-9+/=_-]{40,}|u_[a-f0-9]{64})", "sntrys_ sntryu_", "sntryu_{hex:64}"
    ),
    _token("posthog-key", rb"phx_[A-Za-z0-9]{40,}", "phx_", "phx_{an:43}"),
    _token("linear-key", rb"lin_(?:api|oauth)_[A-Za-z0-9]{40,}", "lin_api_ lin_oauth_", "lin_api_{an:40}"),
    _token(
        "notion-token",
        _ALONE + rb"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?![A-Za-z0-9_]))",
        "ntn_ secret_",
        "ntn_{an:46}",
        "secret_{an:43}",
        check=is_random,
    ),
    _token("airtable-token", _ALONE + rb"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", "pat", "pat{an:14}.{hex:64}"),
    _token("figma-token", rb"fig[dou]_[\w-]{36,}", "figd_ figo_ figu_", "figd_{url:40}"),
    _token("postman-key", rb"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "PMAK-", "PMAK-{hex:24}-{hex:34}"),
    _token("contentful-token", rb"CFPAT-[\w-]{43}", "CFPAT-", "CFPAT-{url:43}"),
    _token("dropbox-token", _ALONE + rb"sl\.(?:u\.)?[\w-]{100,}", "sl.", "sl.{url:140}"),
    _token(
        "facebook-token",
        rb"(?<![\w+/-])EAA[A-Za-z0-9]{90,}(?![\w+/=])",
        "EAA",
        "EAACEdEose0cBA{an:120}",
        check=is_random,
    ),
    _token("buildkite-token", rb"bk[upra][a-z]?_[a-f0-9]{40}", "bku bkp bkr bka", "bkua_{hex:40}"),
    _token("circleci-token", rb"CCIP(?:AT|RJ)_[\w-]{22,}", "CCIPAT_ CCIPRJ_", "CCIPAT_{an:22}_{hex:40}"),
    _token("prefect-key", rb"pn[ub]_[A-Za-z0-9]{36}", "pnu_ pnb_", "pnu_{an:36}"),
    _token(
        "launchdarkly-key",
        _ALONE + rb"(?:sdk|mob)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        "sdk- mob-",
        "sdk-{uuid}",
    ),
    _token("typeform-token", rb"tfp_[\w.-]{40,}", "tfp_", "tfp_{url:44}"),
    _token("readme-key", rb"rdme_[a-z0-9]{70}", "rdme_", "rdme_{low:70}"),
    # ---- structures
    _token(
        "password-hash",
        rb"(?:\$(?:apr1|1|5|6|y)\$[./A-Za-z0-9$=]{1,40}\$[./A-Za-z0-9]{22,}|\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53})",
        "$apr1$ $1$ $5$ $6$ $y$ $2a$ $2b$ $2x$ $2y$",
        "deploy:$apr1${an:8}${an:22}",
        "root:$6${an:16}${an:86}",
        "$2y$10${an:53}",
    ),
    _token(
        "jwt",
        rb"(?<![\w-])eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}\.[\w-]{10,}|[\w-]*\.[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,})",
        "eyJ",
        "eyJ{url:34}.eyJ{url:70}.{url:43}",
        "eyJ{url:50}..{url:16}.{url:80}.{url:22}",
    ),
    _token(
        "private-key-in-base64",
        rb"LS0tLS1CRUdJTi[A-Za-z0-9+/]{30,}={0,2}",
        "LS0tLS1CRUdJTi",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{an:200}",
        check=heuristics.contains_private_key,
    ),
)

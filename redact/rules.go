package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The reaches of the rules. A token is far shorter than tokenReach; a longer one
// is found by its beginning and hidden up to its end.
const (
	tokenReach = 4 << 10
	blockReach = 64 << 10
	lineReach  = 512
)

// token is a rule for secrets that begin with their keyword: a prefix that the
// issuer chose so that they can be found.
func token(id, description, pattern string, keywords ...string) *rule {
	return &rule{
		Rule:  Rule{ID: id, Description: description, Keywords: keywords, Regexp: `\A(?:` + pattern + `)`, Entropy: 3},
		start: tokenStart, reach: tokenReach,
	}
}

// context is a rule for secrets that are recognized by what surrounds them. The
// first group is the secret.
func context(id, description, pattern string, keywords ...string) *rule {
	return &rule{
		Rule:  Rule{ID: id, Description: description, Keywords: keywords, Regexp: `\A(?:` + pattern + `)`, Group: 1, Entropy: 3},
		start: keywordStart, reach: lineReach,
	}
}

func (r *rule) from(start func(text string, keyword int) int) *rule {
	r.start = start
	return r
}

func (r *rule) entropy(bits float64) *rule {
	r.Entropy = bits
	return r
}

func (r *rule) group(n int) *rule {
	r.Group = n
	return r
}

func (r *rule) within(reach int) *rule {
	r.reach = reach
	return r
}

func (r *rule) when(test func(value, text string, m match) bool) *rule {
	r.test = test
	return r
}

func (r *rule) weaker() *rule {
	r.weak = true
	return r
}

// builtinRules returns the built-in rules, the most specific first. Their
// regular expressions are compiled when they are first needed, once for all
// Redactors.
var builtinRules = sync.OnceValue(func() []*rule {
	rules := slices.Concat(tokens(), contexts())
	for _, r := range rules {
		pattern := r.Regexp
		r.re = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	}
	return rules
})

func tokens() []*rule {
	return []*rule{
		token("private-key", "private key in PEM or OpenPGP armour", privateKey, "-----begin").group(1).within(blockReach),
		token("age-secret-key", "age identity", `AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{58,}`, "age-secret-key-"),
		token("aws-access-key-id", "AWS access key id", `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}`, "akia", "asia", "abia", "acca"),
		token("google-api-key", "Google Cloud or Gemini API key", `AIza[0-9A-Za-z_-]{35}`, "aiza"),
		token("google-oauth-secret", "Google OAuth client secret", `GOCSPX-[0-9A-Za-z_-]{28}`, "gocspx-"),
		token("google-oauth-token", "Google OAuth access token", `ya29\.[0-9A-Za-z_-]{30,}`, "ya29."),
		token("github-token", "GitHub token", `gh[pousr]_[0-9A-Za-z]{36,}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		token("github-fine-grained-token", "GitHub fine-grained token", `github_pat_[0-9A-Za-z_]{60,}`, "github_pat_"),
		token("gitlab-token", "GitLab token", `gl(?:pat|ptt|dt|rt|cbt|ft|soat|imt|agent)-[0-9A-Za-z_.-]{20,}`,
			"glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glimt-", "glagent-"),
		token("slack-token", "Slack token", `(?:xox[abceoprs]-|xapp-\d-)[0-9A-Za-z-]{20,}`,
			"xoxa-", "xoxb-", "xoxc-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
		token("slack-webhook", "Slack webhook", `hooks\.slack\.com/(?:services|workflows|triggers)/([0-9A-Za-z/_-]{30,})`, "hooks.slack.com/").group(1),
		token("discord-webhook", "Discord webhook", `discord(?:app)?\.com/api/webhooks/\d{16,20}/([0-9A-Za-z_-]{50,})`,
			"discord.com/api/", "discordapp.com/api/").group(1),
		token("stripe-key", "Stripe key", `[sr]k_(?:live|test|prod)_[0-9A-Za-z]{16,}`, "sk_live_", "sk_test_", "sk_prod_",
			"rk_live_", "rk_test_", "rk_prod_"),
		token("webhook-secret", "signing secret of webhooks", `whsec_[0-9A-Za-z+/]{32,}={0,2}`, "whsec_"),
		token("anthropic-key", "Anthropic key", `sk-ant-[0-9A-Za-z_-]{24,}`, "sk-ant-"),
		token("openrouter-key", "OpenRouter key", `sk-or-v1-[0-9a-f]{64}`, "sk-or-v1-"),
		token("openai-key", "OpenAI key", `sk-(?:(?:proj|svcacct|admin|None)-[0-9A-Za-z_-]{20,}|[0-9A-Za-z]{32,})`, "sk-").entropy(3.5),
		token("huggingface-token", "Hugging Face token", `(?:hf_|api_org_)[0-9A-Za-z]{34,}`, "hf_", "api_org_"),
		token("groq-key", "Groq key", `gsk_[0-9A-Za-z]{48,}`, "gsk_"),
		token("xai-key", "xAI key", `xai-[0-9A-Za-z]{70,}`, "xai-"),
		token("replicate-token", "Replicate token", `r8_[0-9A-Za-z]{37,}`, "r8_"),
		token("npm-token", "npm token", `npm_[0-9A-Za-z]{36}`, "npm_"),
		token("pypi-token", "PyPI token", `pypi-AgE[0-9A-Za-z_-]{50,}`, "pypi-age"),
		token("dockerhub-token", "Docker Hub token", `dckr_(?:pat|oat)_[0-9A-Za-z_-]{24,}`, "dckr_pat_", "dckr_oat_"),
		token("sendgrid-key", "SendGrid key", `SG\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z_-]{43}`, "sg."),
		token("twilio-key", "Twilio API key", `SK[0-9a-f]{32}`, "sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9",
			"ska", "skb", "skc", "skd", "ske", "skf"),
		token("shopify-token", "Shopify token", `shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`, "shpat_", "shpca_", "shppa_", "shpss_"),
		token("square-token", "Square token", `(?:sq0(?:atp|csp|idp)-[0-9A-Za-z_-]{22,}|EAAA[0-9A-Za-z_-]{60})`, "sq0atp-", "sq0csp-", "sq0idp-", "eaaa"),
		token("heroku-token", "Heroku token", `HRKU-[0-9A-Za-z_-]{36,}`, "hrku-"),
		token("digitalocean-token", "DigitalOcean token", `do[opr]_v1_[0-9a-f]{64}`, "doo_v1_", "dop_v1_", "dor_v1_"),
		token("linear-key", "Linear key", `lin_(?:api|oauth)_[0-9A-Za-z]{32,}`, "lin_api_", "lin_oauth_"),
		token("notion-token", "Notion token", `(?:ntn_[0-9A-Za-z]{40,}|secret_[0-9A-Za-z]{43})`, "ntn_", "secret_"),
		token("databricks-token", "Databricks token", `dapi[0-9a-f]{32}(?:-\d)?`, "dapi"),
		token("vault-token", "HashiCorp Vault token", `hv[sbr]\.[0-9A-Za-z_-]{24,}`, "hvs.", "hvb.", "hvr."),
		token("atlassian-token", "Atlassian token", `ATATT3[0-9A-Za-z_=-]{100,}`, "atatt3"),
		token("grafana-token", "Grafana token", `glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}`, "glsa_"),
		token("supabase-token", "Supabase token", `sbp_[0-9a-f]{40}`, "sbp_"),
		token("jwt", "JSON web token", `eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{16,}`, "eyj").within(blockReach),
	}
}

func contexts() []*rule {
	return []*rule{
		context("aws-secret-key", "AWS secret access key",
			`(?i:aws_?secret|secret_?access_?key)[\w.-]{0,24}["']?\s{0,3}[:=]>?\s{0,3}["']?([0-9A-Za-z/+]{40})(?:[^0-9A-Za-z/+=]|\z)`,
			"awssecret", "aws_secret", "secretaccesskey", "secret_access_key").entropy(3.5),
		context("azure-account-key", "Azure storage account key", `(?i:account_?key)["']?\s{0,3}[:=]\s{0,3}["']?([0-9A-Za-z+/]{86}==)`,
			"accountkey", "account_key").entropy(4),
		context("azure-shared-key", "Azure shared access key", `(?i:sharedaccesskey|sharedsecret)\s{0,3}=\s{0,3}([0-9A-Za-z+/]{43}=)`,
			"sharedaccesskey", "sharedsecret").entropy(4),
		context("azure-client-secret", "Azure client secret", `([0-9A-Za-z_~.]{3}\dQ~[0-9A-Za-z_~.-]{31,34})(?:[^0-9A-Za-z_~.-]|\z)`,
			"7q~", "8q~", "9q~").from(azureStart),
		context("discord-token", "Discord bot token", `(?i:discord|bot)[^\n]{0,60}?([MNO][0-9A-Za-z_-]{23,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,38})(?:[^0-9A-Za-z_-]|\z)`,
			"discord", "bot_token", "bottoken").entropy(3.5),
		context("telegram-token", "Telegram bot token", `(\d{8,10}:AA[0-9A-Za-z_-]{33})(?:[^0-9A-Za-z_-]|\z)`, ":aa").from(telegramStart),
		context("twilio-auth-token", "Twilio auth token", `(?i:twilio)[^\n]{0,40}?[\s"'=:]([0-9a-f]{32})(?:[^0-9A-Za-z]|\z)`, "twilio"),
		context("heroku-key", "Heroku API key",
			`(?i:heroku)[^\n]{0,40}?[\s"'=:]([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?:[^0-9A-Za-z-]|\z)`, "heroku"),
		context("authorization", "Authorization header",
			`(?i:authorization)["']?\s{0,3}[:=,]\s{0,3}["'`+"`"+`]?(?:(?i:bearer|token|basic)\s{1,3})([0-9A-Za-z._~+/-]{12,}={0,2})`,
			"authorization").within(tokenReach).when(hasLettersAndMore),
		context("bearer", "bearer token", `(?i:bearer)\s{1,3}([0-9A-Za-z._~+/-]{24,}={0,2})`, "bearer ").
			within(tokenReach).entropy(3.5).when(hasLettersAndMore),
		context("url-password", "password in a URL",
			`[A-Za-z][0-9A-Za-z+.-]{1,20}://[^\s:/@"'<>`+"`"+`\\]{0,100}:([^\s:/@"'<>`+"`"+`\\]{3,200})@[0-9A-Za-z\[]`, "://").
			from(urlStart).entropy(0).when(realPassword),
		context("generic-secret", "value of something called password, secret, token or key", generic,
			"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "access_key", "accesskey",
			"auth_key", "private_key", "credential").entropy(2.5).when(realAssignment).weaker(),
	}
}

// privateKey is the head of a key, and as its first group what follows: lines of
// base64, the line breaks as such or written as escapes. The last lines may be
// short. A truncated key is found as far as it goes.
const privateKey = `-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----` + breaks +
	`(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{0,200}` + breaks + `)*` +
	`([0-9A-Za-z+/=]{16,}(?:` + breaks + `[0-9A-Za-z+/=]{16,})*(?:` + breaks + `[0-9A-Za-z+/=]{1,76}){0,2})`

const breaks = `(?:\s|\\+[nrt])+`

// generic is a name that says secret, an assignment sign or a space, and as its
// first group the value.
const generic = `(?i:password|passwd|passphrase|secret|token|api[_-]?key|access_?key|auth_key|private_key|credential)` +
	`(?:[_-]?[A-Za-z0-9]{1,20}){0,2}["'\]]{0,2}(?:\s{0,3}(?::=|=>|[:=])\s{0,3}|\s{1,3})\\?["'` + "`" + `]?([^\s"'` + "`" + `\\<>(){}\[\],;]{8,})`

// hasLettersAndMore tells a token from a word.
func hasLettersAndMore(value, _ string, _ match) bool {
	return strings.ContainsAny(value, "0123456789") && strings.IndexFunc(value, isLetter) >= 0
}

func isLetter(r rune) bool { return r < 0x80 && (r|0x20 >= 'a' && r|0x20 <= 'z') }

// notPasswords are placeholders that people write instead of a password.
var notPasswords = []string{"pass", "passwd", "password", "pw", "pwd", "secret", "user", "username", "token", "test", "root",
	"admin", "postgres", "mysql", "redis", "guest", "xxx", "***", "..."}

// realPassword tells the password of a URL from what documentation and local
// databases put there: the name of the user again, or a variable.
func realPassword(value, text string, m match) bool {
	low := strings.ToLower(value)
	if slices.Contains(notPasswords, low) || strings.ContainsAny(value[:1], "$%{<*[") {
		return false
	}
	_, user, _ := strings.Cut(text[m.from:m.secretFrom-1], "://")
	return user != value
}

// stopWords occur in values that are not secrets; stopFronts and stopNames in
// names that do not stand for one, before the keyword and after it.
var (
	stopFronts = []string{"page", "next", "csrf", "xsrf", "cancel", "continu", "sync", "resume"}
	stopWords  = []string{"your", "my-", "my_", "none", "null", "undefined", "true", "false", "test", "sample", "insert", "replace",
		"env.", "getenv", "process.", "config.", "settings.", "secrets.", "vars.", "http://", "https://"}
	stopNames = []string{"tokeni", "tokens", "count", "limit", "length", "name", "path", "file", "type", "url", "_id", "field",
		"policy", "class"}
)

// realAssignment judges a value by its form, because names like token are
// frequent in text and code.
func realAssignment(value, text string, m match) bool {
	name := strings.ToLower(text[m.from:m.secretFrom])
	low := strings.ToLower(value)
	is := func(s string) func(string) bool { return func(w string) bool { return strings.Contains(s, w) } }
	if slices.ContainsFunc(stopFronts, is(front(text, m.from))) || slices.ContainsFunc(stopNames, is(name)) ||
		slices.ContainsFunc(stopWords, is(low)) {
		return false
	}
	if strings.ContainsAny(value[:1], "$%&*/.:=@#|") || !hasLettersAndMore(value, text, m) || calls(text, m.secretTo) {
		return false
	}
	assigned := strings.ContainsAny(name, ":=")
	quoted := strings.ContainsAny(name[len(name)-1:], "\"'`")
	switch {
	case !assigned && !flag(text, m.from):
		return false // a sentence about a token
	case quoted || !assigned:
		return true
	}
	// Without quotes it may be code: an identifier, or a path of several.
	return len(value) >= 12 && entropy(value) >= 3.2 && !identifier(value)
}

// front returns the part of a name that ends at i, in lower case.
func front(text string, i int) string {
	from := i
	for from > max(0, i-32) && (isWord(text[from-1]) || text[from-1] == '-') {
		from--
	}
	return strings.ToLower(text[from:i])
}

// calls reports whether what ends at i is the name of a function or an array.
func calls(text string, i int) bool { return i < len(text) && strings.IndexByte("([{", text[i]) >= 0 }

// flag reports whether a command-line option begins before i.
func flag(text string, i int) bool {
	from := strings.LastIndexAny(text[max(0, i-32):i], " \t\n\"'=")
	return strings.HasPrefix(text[max(0, i-32)+from+1:], "--")
}

// identifier reports whether value looks like names in code, joined by dots or
// not: words of letters, at most three digits at their ends.
func identifier(value string) bool {
	return namesOnly().MatchString(value)
}

var namesOnly = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\A[A-Za-z_]+\d{0,3}(?:(?:\.|->|::|-)[A-Za-z_]+\d{0,3})*\z`)
})

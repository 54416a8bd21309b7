package serve

import (
	"errors"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/open"
)

// Setting is one setting of a server. Its name is that of a flag and, with _ for
// -, a key of serve.yaml; some have a variable, too. It can be the value of a flag.
type Setting struct {
	Name, Variable, Help string
	// Everywhere means that every command has the flag. A Secret has none: its key
	// in the file is NAME_file, and its variable may be VARIABLE_FILE. What is
	// FileOnly has neither.
	Everywhere, Secret, FileOnly bool
	// Origin says where the value comes from.
	Origin string

	text *string
	list *[]string
	on   *bool
	size *int64
	many *int
	rate *float64
	path bool // the text is the path of a file
	urls bool // the list has URLs of databases, which may have commas
}

// Settings returns everything that can be set, in the order in which people read
// about it. They point into c.
func (c *Config) Settings() []*Setting {
	if c.settings == nil {
		c.settings = c.newSettings()
	}
	return c.settings
}

// newSettings is the table of all settings.
func (c *Config) newSettings() []*Setting {
	return []*Setting{
		{Name: "store", Variable: "TIDEMARK_STORE", Everywhere: true, text: &c.Store, Help: "`URL` of the store to serve; without a password"},
		{Name: "database-password", Variable: "PGPASSWORD", Secret: true, text: &c.databasePassword, Help: "the password of the store's role"},
		{Name: "database-owner", Variable: open.DatabaseOwner, Secret: true, text: &c.databaseOwner, Help: "the `URL` of the owner of the tables, with the password, for migrate"},
		{Name: "replica", urls: true, list: &c.Replicas, Help: "`URL` of a standby of the database that answers reads, without a password; again for more. Its password is that of the store's role"},
		{Name: "databases", Variable: open.DatabasesVariable, path: true, text: &c.Databases, Help: "`FILE` with the databases that tenants were moved to, a line NAME: URL each, read when one is met for the first time"},
		{Name: "key-file", Variable: "TIDEMARK_KEY_FILE", Everywhere: true, path: true, text: &c.keyFile, Help: "`FILE` with the key of an encrypted store"},
		{Name: "addr", text: &c.Addr, Help: "`ADDRESS` to listen at"},
		{Name: "auth", Variable: "AUTH_MODE", text: &c.Auth, Help: "who may call: local, oidc, or entra, which is oidc for Microsoft Entra"},
		{Name: "oidc-issuer", Variable: "OIDC_ISSUER", text: &c.OIDC.Issuer, Help: "`URL` of who issues tokens"},
		{Name: "oidc-issuers", Variable: "OIDC_ISSUERS", path: true, text: &c.OIDC.File, Help: "`FILE` with several issuers and where their people belong, read again when it changes"},
		{Name: "oidc-audience", Variable: "OIDC_AUDIENCE", text: &c.OIDC.Audience, Help: "the `AUDIENCE` that tokens have to name"},
		{Name: "oidc-azp", Variable: "OIDC_AZP", list: &c.OIDC.Clients, Help: "the `ID` of a program whose tokens are taken, as azp says it; again for more. Without it, only those of the audience itself"},
		{Name: "oidc-client-id", Variable: "OIDC_CLIENT_ID", text: &c.OIDC.ClientID, Help: "the `ID` that the issuer knows this server by, to let browsers sign in"},
		{Name: "oidc-client-secret", Variable: "OIDC_CLIENT_SECRET", Secret: true, text: &c.OIDC.ClientSecret, Help: "the secret that goes with the client id"},
		{Name: "public-url", Variable: "TIDEMARK_PUBLIC_URL", text: &c.OIDC.PublicURL, Help: "the `URL` that people reach this server at, when a proxy has the TLS"},
		{Name: "default-role", text: &c.OIDC.Role, Help: "the `ROLE` of users at first sight: reader, writer or admin"},
		{Name: "role-claim", text: &c.OIDC.RoleClaim, Help: "the `CLAIM` of a token that says the role, each time; without it admins give roles"},
		{Name: "host", list: &c.Hosts, Help: "a `NAME` that this server is called by, besides localhost; again for more. With oidc and without it, any"},
		{Name: "tls-cert", path: true, text: &c.CertFile, Help: "`FILE` with the certificate, read again when it changes; without it, put a proxy with TLS in front"},
		{Name: "tls-key", path: true, text: &c.KeyFile, Help: "`FILE` with the key of the certificate"},
		{Name: "token-file", path: true, text: &c.TokenFile, Help: "`FILE` with the token of the local user; without it server.token beside the store"},
		{Name: "audit-anchors", path: true, text: &c.AnchorFile, Help: "`FILE` that gets the head of the audit log every minute; keep it elsewhere"},
		{Name: "audit-keep", FileOnly: true, text: &c.AuditKeep, Help: "how long lines of the audit log are kept, such as 365d; for ever without it. They go by the month"},
		{Name: "audit-syslog", FileOnly: true, text: &c.AuditSyslog, Help: "the `PLACE` of a syslog that gets the audit log, too: unix:/dev/log, udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT, which may name files: ?ca=FILE&cert=FILE&key=FILE"},
		{Name: "audit-webhook", FileOnly: true, text: &c.AuditWebhook, Help: "`URL` that gets the audit log, too, as JSON lines by POST"},
		{Name: "audit-webhook-secret", Secret: true, text: &c.webhookSecret, Help: "the secret that these are signed with"},
		{Name: "cold", Variable: open.ColdVariable, text: &c.Cold, Help: "`URL` that older lines of quiet sessions are moved to: file:/DIR, s3://BUCKET/PREFIX or store:, the store itself; of stores on PostgreSQL, and of the one user of --auth local"},
		{Name: "cold-older", text: &c.ColdOlder, Help: "how long nobody touched a session whose lines are moved, such as 36h; 90d without it"},
		{Name: "pack-older", text: &c.PackOlder, Help: "how long nobody touched a session whose older lines are packed in the store itself, such as 7d; never without it"},
		{Name: "cold-key", Variable: "AWS_ACCESS_KEY_ID", FileOnly: true, text: &c.coldKey, Help: "the id of the key of that storage"},
		{Name: "cold-secret", Variable: "AWS_SECRET_ACCESS_KEY", Secret: true, text: &c.coldSecret, Help: "the key of that storage"},
		{Name: "otlp-endpoint", Variable: "OTEL_EXPORTER_OTLP_ENDPOINT", text: &c.TraceEndpoint, Help: "`URL` of an OpenTelemetry collector"},
		{Name: "log", text: &c.LogFormat, Help: "`FORMAT` of the log on stderr: json or text"},
		{Name: "fleet", path: true, text: &c.Fleet, Help: "take the webhooks of this fleet `FILE` at /hooks/AGENT/NAME; a fleet that is up runs their jobs"},
		{Name: "migrate", on: &c.Migrate, Help: "bring the database up to date first"},
		{Name: "require-database", Variable: "DATABASE_REQUIRED", on: &c.RequireDatabase, Help: "refuse to start without PostgreSQL; on with oidc"},
		{Name: "limit-requests", FileOnly: true, rate: &c.Limits.Rate, Help: "requests a second of one tenant at this server; 10000 without it"},
		{Name: "limit-burst", FileOnly: true, many: &c.Limits.Burst, Help: "how many of them may come at once, after a pause; 20000 without it"},
		{Name: "limit-at-once", FileOnly: true, many: &c.Limits.Concurrent, Help: "requests of one tenant that are answered at the same time, streams not counted; 512 without it"},
		{Name: "limit-streams", FileOnly: true, many: &c.Limits.Streams, Help: "streams and sockets of one tenant that are open at the same time; 4096 without it"},
		{Name: "limit-bytes", FileOnly: true, size: &c.Limits.Bytes, Help: "bytes a minute that one tenant sends and is answered at this server; no limit without it, as for the two that follow"},
		{Name: "limit-sessions", FileOnly: true, size: &c.Limits.Sessions, Help: "sessions that one tenant keeps, those in the trash included"},
		{Name: "limit-storage", FileOnly: true, size: &c.Limits.Storage, Help: "bytes that one tenant keeps"},
		{Name: "limit-user-requests", FileOnly: true, rate: &c.Limits.User.Rate, Help: "requests a second of one user, or of one token of the tenant itself; half of the tenant's without it, as for the three that follow"},
		{Name: "limit-user-burst", FileOnly: true, many: &c.Limits.User.Burst, Help: "how many of them may come at once, after a pause"},
		{Name: "limit-user-at-once", FileOnly: true, many: &c.Limits.User.Concurrent, Help: "requests of one user that are answered at the same time"},
		{Name: "limit-user-streams", FileOnly: true, many: &c.Limits.User.Streams, Help: "streams and sockets of one user that are open at the same time"},
		{Name: "limit-user-bytes", FileOnly: true, size: &c.Limits.User.Bytes, Help: "bytes a minute that one user sends and is answered; half of the tenant's without it"},
		{Name: "limit-user-sessions", FileOnly: true, size: &c.Limits.User.Sessions, Help: "sessions that one user keeps; no limit without it, as for the two that follow"},
		{Name: "limit-user-storage", FileOnly: true, size: &c.Limits.User.Storage, Help: "bytes that one user keeps"},
		{Name: "limit-user-blobs", FileOnly: true, size: &c.Limits.User.Blobs, Help: "bytes that the remotes of one user may keep at this server"},
		{Name: "limit-body", FileOnly: true, size: &c.Limits.Body, Help: "bytes of a request; 8 MiB without it"},
		{Name: "limit-import", FileOnly: true, size: &c.Limits.Import, Help: "bytes of an import; 1 GiB without it"},
		{Name: "limit-memory", FileOnly: true, size: &c.Limits.Memory, Help: "bytes that all requests together may take once decoded; 512 MiB without it"},
	}
}

// Default is the Config of a server that nobody configured.
func Default() *Config {
	return &Config{Listener: Listener{Addr: "127.0.0.1:7433"}, Auth: AuthLocal, OIDC: OIDC{Role: "writer"}, LogFormat: "json"}
}

// Key is the setting's key in serve.yaml.
func (s *Setting) Key() string {
	key := strings.ReplaceAll(s.Name, "-", "_")
	if s.Secret {
		key += secretSuffix
	}
	return key
}

// secretSuffix is the end of the key that names the file with a secret.
const secretSuffix = "_file"

// Usage is the help of the setting's flag.
func (s *Setting) Usage() string {
	if s.Variable == "" {
		return s.Help
	}
	return s.Help + " ($" + s.Variable + ")"
}

// String is the value as a flag has it.
func (s *Setting) String() string {
	switch {
	case s.text != nil:
		return *s.text
	case s.list != nil:
		return strings.Join(*s.list, ",")
	case s.on != nil:
		return strconv.FormatBool(*s.on)
	case s.size != nil && *s.size > 0:
		return strconv.FormatInt(*s.size, 10)
	case s.many != nil && *s.many > 0:
		return strconv.Itoa(*s.many)
	case s.rate != nil && *s.rate > 0:
		return strconv.FormatFloat(*s.rate, 'f', -1, 64)
	}
	return ""
}

// Shown is the value for people: of a secret and of a URL without its password.
func (s *Setting) Shown() string {
	switch {
	case s.Secret && s.String() != "":
		return "(set)"
	case s.Name == "store":
		return open.WithoutPassword(s.String())
	case s.urls:
		var shown []string
		for _, u := range *s.list {
			shown = append(shown, open.WithoutPassword(u))
		}
		return strings.Join(shown, ",")
	}
	return s.String()
}

// Set sets the value. That of a list has commas, and is added to what is there.
func (s *Setting) Set(value string) error {
	switch {
	case s.text != nil:
		*s.text = value
	case s.urls:
		*s.list = append(*s.list, value)
	case s.list != nil:
		*s.list = append(*s.list, strings.Split(value, ",")...)
	case s.isNumber():
		n, err := strconv.ParseInt(value, 10, 0)
		if err != nil || n < 1 {
			return errors.New("want a whole number from 1 on")
		}
		switch {
		case s.size != nil:
			*s.size = n
		case s.many != nil:
			*s.many = int(n)
		default:
			*s.rate = float64(n)
		}
	default:
		on, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("want true or false")
		}
		*s.on = on
	}
	return nil
}

func (s *Setting) isNumber() bool { return s.size != nil || s.many != nil || s.rate != nil }

// Type is what the flag takes.
func (s *Setting) Type() string {
	switch {
	case s.list != nil:
		return "strings"
	case s.on != nil:
		return "bool"
	}
	return "string"
}

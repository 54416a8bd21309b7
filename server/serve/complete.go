package serve

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/open"
)

// FileVariable names the file with the settings of a server, unless a flag does.
const FileVariable = "TIDEMARK_SERVE_FILE"

// Sources are where settings come from.
type Sources struct {
	// Flag returns the value of a flag, and whether somebody gave it.
	Flag    func(name string) (value string, given bool)
	Environ []string
	// File is serve.yaml; "": the one that FileVariable names, else Usual, which
	// need not exist.
	File, Usual string
	// Store is the store where nothing here names one, and StoreOrigin who does.
	Store, StoreOrigin string
}

// Complete takes what no flag sets from the environment, what is not there from
// the file, and refuses what does not go together.
func (c *Config) Complete(from Sources) error {
	file := cmp.Or(from.File, open.Getenv(from.Environ, FileVariable))
	said, err := readSettings(cmp.Or(file, from.Usual), file != "", c.Settings())
	if err != nil {
		return err
	}
	for _, s := range c.Settings() {
		if err := s.complete(from, said); err != nil {
			return err
		}
	}
	return c.consider(from)
}

// complete sets one setting by the first source that has it.
func (s *Setting) complete(from Sources, said *said) error {
	value := open.Getenv(from.Environ, s.Variable)
	secret := ""
	if s.Secret {
		secret = open.Getenv(from.Environ, s.Variable+strings.ToUpper(secretSuffix))
	}
	node := said.settings.Get(s.Key())
	if !s.Secret && !s.FileOnly {
		if flag, given := from.Flag(s.Name); given {
			s.Origin = "flag --" + s.Name
			if s.Everywhere {
				return s.Set(flag)
			}
			return nil
		}
	}
	switch {
	case s.Variable != "" && value != "":
		s.Origin = "environment " + s.Variable
		if err := s.Set(value); err != nil {
			return tidemark.Invalidf("%s %q: %w", s.Variable, value, err)
		}
	case secret != "":
		s.Origin = "environment " + s.Variable + strings.ToUpper(secretSuffix)
		return s.read(secret)
	case node != nil:
		s.Origin = said.file
		return said.take(s, node)
	default:
		s.Origin = "default"
	}
	return nil
}

// secretBytes keeps a wrong file from being read completely.
const secretBytes = 64 << 10

// read takes a secret from its file, without the end of its line.
func (s *Setting) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return tidemark.Invalidf("%s: %w", s.Key(), err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, secretBytes+1))
	if err != nil {
		return tidemark.Invalidf("%s: %w", s.Key(), err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" || len(b) > secretBytes || strings.ContainsAny(secret, "\n\x00") {
		return tidemark.Invalidf("%s: %s does not have one line with a secret", s.Key(), path)
	}
	return s.Set(secret)
}

// consider refuses what does not go together, and adds what follows from the rest.
func (c *Config) consider(from Sources) error {
	of := make(map[string]*Setting)
	for _, s := range c.Settings() {
		of[s.Name] = s
	}
	switch c.Auth {
	case AuthLocal, AuthEntra:
	case AuthOIDC:
		if c.OIDC.Issuer == "" && c.OIDC.File == "" {
			return hint.With(tidemark.Invalidf("who issues the tokens?"), "name the issuer with --oidc-issuer URL, or several in a file with --oidc-issuers FILE")
		}
	default:
		return tidemark.Invalidf("--auth %q: want local, oidc or entra", c.Auth)
	}
	if !slices.Contains([]string{tenant.RoleReader, tenant.RoleWriter, tenant.RoleAdmin}, c.OIDC.Role) {
		return tidemark.Invalidf("--default-role %q: want reader, writer or admin", c.OIDC.Role)
	}
	if (c.Auth == AuthEntra || c.Auth == AuthOIDC && c.OIDC.Issuer != "") && c.OIDC.Audience == "" {
		return hint.With(tidemark.Invalidf("tokens for whom?"), "name this service, as the issuer knows it, with --oidc-audience")
	}
	if _, _, err := c.auditPlaces(""); err != nil {
		return err
	}
	if _, err := c.coldMoves(); err != nil {
		return err
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		return tidemark.Invalidf("--log %q: want json or text", c.LogFormat)
	}
	if of["require-database"].Origin == "default" {
		c.RequireDatabase = c.Auth != AuthLocal
	}
	if c.Store == "" {
		c.Store, of["store"].Origin = from.Store, from.StoreOrigin
	}
	if password := of["database-password"]; password.Origin != "default" && password.Origin != "environment "+password.Variable && open.IsPostgres(c.Store) {
		var err error
		if c.Store, err = c.withPassword(from, c.Store); err != nil {
			return tidemark.Invalidf("the store's URL cannot be read")
		}
		for i := range c.Replicas {
			if c.Replicas[i], err = c.withPassword(from, c.Replicas[i]); err != nil {
				return tidemark.Invalidf("the URL of a replica cannot be read")
			}
		}
	}
	for _, replica := range c.Replicas {
		switch {
		case !open.IsPostgres(c.Store):
			return hint.With(tidemark.Invalidf("--replica: the store is no database, and has none"), "name one with --store postgres://ROLE@HOST/DATABASE")
		case !open.IsPostgres(replica):
			return tidemark.Invalidf("--replica %s: want postgres://ROLE@HOST/DATABASE", open.WithoutPassword(replica))
		}
	}
	if err := c.checkDatabases(); err != nil {
		return err
	}
	return c.CheckListener("--addr", c.Auth == AuthLocal)
}

// checkDatabases wants a file that can be read, and no replicas beside it: how far a
// replica has to be is said by a position of one database.
func (c *Config) checkDatabases() error {
	switch {
	case c.Databases == "":
		return nil
	case !open.IsPostgres(c.Store):
		return hint.With(tidemark.Invalidf("--databases: the store is no database, and tenants move between databases"), "name one with --store postgres://ROLE@HOST/DATABASE")
	case len(c.Replicas) > 0:
		return tidemark.Invalidf("--databases and --replica: a server with several databases uses no replicas")
	}
	_, err := open.ReadDatabases(c.Databases)
	return err
}

// withPassword adds the password of the store's role to the URL of a database.
func (c *Config) withPassword(from Sources, place string) (string, error) {
	u, err := url.Parse(place)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(cmp.Or(u.User.Username(), u.Query().Get("user"), open.Getenv(from.Environ, "PGUSER")), c.databasePassword)
	return u.String(), nil
}

// Variables returns an environment that also has what the file says, for what reads
// variables itself.
func (c *Config) Variables(environ []string) []string {
	var more []string
	for _, s := range c.Settings() {
		own := s.text == &c.databaseOwner || s.text == &c.keyFile || s.text == &c.coldKey || s.text == &c.coldSecret
		if own && s.String() != "" && !strings.HasPrefix(s.Origin, "flag") {
			more = append(more, s.Variable+"="+s.String())
		}
	}
	return append(more, environ...)
}

// said is what a file says.
type said struct {
	file     string
	settings *yaml.Node
}

// fileLimits bound serve.yaml.
var fileLimits = yaml.Limits{Bytes: 1 << 20, Parts: 100_000, Keys: 1000, Depth: 16, Anchors: 100, Values: 100_000}

// readSettings reads serve.yaml. ErrInvalid: it is missing though required, or has
// what is none of the settings.
func readSettings(file string, required bool, settings []*Setting) (*said, error) {
	s := &said{file: file}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return s, nil
	}
	if err != nil {
		return nil, tidemark.Invalidf("settings of the server: %w", err)
	}
	root, problems := yaml.Parse(b, fileLimits)
	if len(problems) > 0 {
		p := problems[0]
		return nil, s.wrong(p.Line, p.Column, p.Hint, "%s", p.Message)
	}
	if root == nil {
		return s, nil
	}
	if root.Shape != yaml.Map {
		return nil, s.wrong(root.Line, root.Column, "write NAME: VALUE", "this is %s, and settings have names", root.Shape)
	}
	known := make([]string, len(settings))
	for i, setting := range settings {
		known[i] = setting.Key()
	}
	for _, e := range root.Entries {
		switch {
		case slices.Contains(known, e.Key):
		case slices.Contains(known, e.Key+secretSuffix):
			return nil, s.wrong(e.Line, e.Column, "put it into a file of its own, and say "+e.Key+secretSuffix+": FILE", "%s: a secret does not belong into this file", e.Key)
		default:
			way := "tidemark serve --help lists them"
			if near := text.Nearest(e.Key, known); near != "" {
				way = "did you mean " + near + "?"
			}
			return nil, s.wrong(e.Line, e.Column, way, "%.40q is no setting of a server", e.Key)
		}
	}
	s.settings = root
	return s, nil
}

// take sets a setting to what the file says.
func (f *said) take(s *Setting, n *yaml.Node) error {
	wrong := func(format string, args ...any) error {
		return f.wrong(n.Line, n.Column, "", s.Key()+": "+format, args...)
	}
	if s.list != nil && n.Shape == yaml.List {
		for _, item := range n.Items {
			if item.Shape == yaml.List || item.Shape == yaml.Map || item.Shape == yaml.Null {
				return wrong("this is %s, and a text is meant", item.Shape)
			}
			if s.urls && hasPassword(item.Text) {
				return f.passwordIn(s, item)
			}
			*s.list = append(*s.list, item.Text)
		}
		return nil
	}
	if n.Shape == yaml.List || n.Shape == yaml.Map {
		return wrong("this is %s, and one value is meant", n.Shape)
	}
	value := n.Text
	if (s.path || s.Secret) && !filepath.IsAbs(value) {
		value = filepath.Join(filepath.Dir(f.file), value)
	}
	if s.Secret {
		return s.read(value)
	}
	if (s.Name == "store" || s.urls) && hasPassword(value) {
		return f.passwordIn(s, n)
	}
	if err := s.Set(value); err != nil {
		return wrong("%q: %w", value, err)
	}
	return nil
}

// passwordIn refuses a URL with a password.
func (f *said) passwordIn(s *Setting, n *yaml.Node) error {
	return f.wrong(n.Line, n.Column, "put it into a file of its own, and say database_password_file: FILE", "%s: a password does not belong into this file", s.Key())
}

func hasPassword(store string) bool {
	u, err := url.Parse(store)
	if err != nil {
		return false
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// wrong says what is wrong in the file, and where.
func (f *said) wrong(line, column int, way, format string, args ...any) error {
	err := tidemark.Invalidf("%s:%d:%d: "+format, append([]any{f.file, line, column}, args...)...)
	if way == "" {
		return err
	}
	return hint.With(err, "%s", way)
}

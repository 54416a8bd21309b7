package open

import (
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// DatabasesVariable is the environment variable that names the file with the databases
// that tenants may have been moved to.
const DatabasesVariable = "TIDEMARK_DATABASES"

// Databases returns what reads the file that the environment names; nil: it names none.
func Databases(environ []string) func() (map[string]string, error) {
	file := Getenv(environ, DatabasesVariable)
	if file == "" {
		return nil
	}
	return func() (map[string]string, error) { return ReadDatabases(file) }
}

// databaseName is what a database may be called: the name is kept in other databases.
var databaseName = expression.WhenNeeded(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// ReadDatabases reads a YAML file with the URLs of databases by name. ErrInvalid: it
// cannot be read, or has what is no database.
func ReadDatabases(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, tidemark.Invalidf("databases: %w", err)
	}
	defer f.Close()
	all := make(map[string]string)
	if err := yaml.ReadSettings("databases", file, f, &all); err != nil {
		return nil, hint.With(err, "write a line for each database: NAME: postgres://ROLE@HOST/DATABASE")
	}
	for name, url := range all {
		switch {
		case !databaseName().MatchString(name):
			return nil, tidemark.Invalidf("databases %s: %q is no name: want small letters, digits and . _ -", file, name)
		case !IsPostgres(url):
			return nil, hint.With(tidemark.Invalidf("databases %s: %s is no database", file, name), "write %s: postgres://ROLE@HOST/DATABASE", name)
		}
	}
	return all, nil
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
)

// topics are commands that do nothing but explain: `tidemark help refs`.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "environment", Short: "Variables that the program reads", Long: topicEnvironment},
		{Use: "formatting", Short: "Output for programs: --json, --jq, --template", Long: topicFormatting},
		{Use: "exit-codes", Short: "What the exit codes mean", Long: topicExitCodes()},
		{Use: "refs", Short: "How to name a session, and a point in one", Long: topicRefs},
		{Use: "files", Short: "Where the store, the configuration and keys are", Long: topicFiles},
		{Use: "prices", Short: "What models cost, and where that is said", Long: topicPrices},
	}
}

// helpCommand shows the help of a command or a topic. One that is not there is
// a wrong use, as everywhere.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND | TOPIC]",
		Short:   "Show the help of a command or a topic",
		Example: "  tidemark help show\n  tidemark help refs",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
			if about, _, err := cmd.Root().Find(args); err == nil {
				for _, c := range about.Commands() {
					if !c.Hidden && strings.HasPrefix(c.Name(), typed) {
						found = append(found, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return withHint(tidemark.Invalidf("help: there is no command or topic %q", strings.Join(args, " ")), "see what there is with: tidemark help")
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

const topicEnvironment = `A flag beats a variable, and a variable beats the configuration file.

The store and its key:

  TIDEMARK_STORE            where sessions are kept, like --store
  TIDEMARK_PROVIDER, TIDEMARK_MODEL, TIDEMARK_BASE_URL
                            the model that chat asks, like --provider, --model
                            and --base-url
  ANTHROPIC_API_KEY, OPENAI_API_KEY
                            keys of the providers; they are never kept
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST
                            where the providers are
  TIDEMARK_SANDBOX          on (the default) or off: whether programs of
                            conversations are held in a sandbox, like --sandbox
  TIDEMARK_KEY_FILE         path of the store's key file, like --key-file
  TIDEMARK_KEY_COMMAND      a command that prints what a key file holds
  TIDEMARK_PASSPHRASE_FILE  path of a file that holds the passphrase

Of the last three the first that is set counts, and nothing else is tried. A key
is never the value of a flag or of a variable: other programs could read it.

Servers and databases:

  TIDEMARK_TOKEN            the token for --store https://…
  TIDEMARK_TOKEN_FILE       path of a file that holds it
  TIDEMARK_DATABASE_OWNER   URL of who owns the tables, for database migrate and
                            serve --migrate
  PGUSER, PGPASSWORD        and others that PostgreSQL's own programs read, where
                            the URL of a database does not say
  AUTH_MODE                 who may call serve: local, oidc or entra; --auth
  OIDC_ISSUER, OIDC_AUDIENCE
                            like --oidc-issuer and --oidc-audience
  OIDC_AZP                  like --oidc-azp, with commas between the programs
  OIDC_CLIENT_ID, OIDC_CLIENT_SECRET
                            what the issuer knows serve by, to let browsers sign
                            in; the first is like --oidc-client-id
  TIDEMARK_PUBLIC_URL       where people reach serve, like --public-url
  DATABASE_REQUIRED         true or false, like --require-database
  OTEL_EXPORTER_OTLP_ENDPOINT
                            where traces of serve go, like --otlp-endpoint

Colour, on a terminal only:

  NO_COLOR        no colour, when it is not empty
  CLICOLOR_FORCE  colour also where TERM or CLICOLOR say no; 0 means unset
  CLICOLOR        0: no colour
  TERM            dumb: no colour

What can be drawn:

  LC_ALL, LC_CTYPE, LANG  the first that is set; stats --plot draws in ASCII
                          unless it names UTF-8
  TIDEMARK_FORCE_TTY=80   write as to a terminal of 80 columns, for tests

Where things are; relative paths are ignored (see tidemark help files):

  XDG_DATA_HOME    the folder of the default store
  XDG_CONFIG_HOME  the folder of configuration and key files
  XDG_STATE_HOME   the folder of grants and of the key of a fleet
  HOME, APPDATA, LOCALAPPDATA
                   the folders that take their place
  TZ               the time zone of days and dates`

const topicFormatting = `Data goes to stdout, everything else to stderr. On a terminal, tables are aligned
and times are relative. In a pipe, rows are lines with tabs between the columns,
without a heading, and nothing is cut.

  --json               everything, as JSON
  --json=id,title      only these fields
  --jq EXPRESSION      JSON through a jq filter; text is printed without quotes
  --template TEMPLATE  JSON through a Go template

Fields are snake_case. Times are RFC 3339 in UTC, in fields that end in _at.
Fields may be added; none changes its meaning.

Functions for templates, beside those of Go's text/template:

  json VALUE            the value as JSON
  join SEPARATOR LIST   the elements in one line
  timeago TIME          how long ago it was
  truncate COLUMNS TEXT as much as fits

Examples:

  tidemark ls --json=id,title
  tidemark ls --jq '.[] | select(.messages > 10) | .title'
  tidemark ls --template '{{range .}}{{timeago .updated_at}} {{.id}}{{"\n"}}{{end}}'
  tidemark cat last --jq '.blocks[] | select(.type == "text") | .text'
  tidemark stats --by day --jq '.[] | [.name, .cost_usd] | @tsv'`

const topicRefs = `A SESSION is one of:

  7f3a0c1e-…   its id
  7f3a         the beginning of its id, 4 or more digits, when it means one
  "my title"   its title, in upper or lower case
  its id in the tool that it was imported from
  last         the one that changed last in this project; where the project has
               none, anywhere
  @-1, @-2     the same as last, and the one before it

Behind it may stand a point:

  SESSION@n3     the end of node n3 of its tree (see tidemark tree)
  SESSION@12     entry 12
  SESSION@label  the entry with this label
  SESSION~2      two turns above the newest entry
  SESSION@n3~1   one turn above n3

Before it may stand an owner, in a store that several people have: OWNER:SESSION
is one that OWNER shared, whoever else has a session of that id.

A reference that means several sessions is an error that lists them. Living
sessions come before those in the trash. References work in every folder.`

const topicFiles = `The store, unless --store, TIDEMARK_STORE or the configuration name another one:

  Linux and others  $XDG_DATA_HOME/tidemark/tidemark.db
                    ~/.local/share/tidemark/tidemark.db
  macOS             ~/Library/Application Support/tidemark/tidemark.db
  Windows           %APPDATA%\tidemark\tidemark.db

A store on PostgreSQL or on a server is named postgres://… or https://….

SQLite keeps files beside it whose names end in -wal and -shm while it is in use;
they belong to the store. On macOS, XDG_DATA_HOME counts when it is set.

The configuration, config.yaml, unless --config names another file:

  Linux and others  $XDG_CONFIG_HOME/tidemark/config.yaml
                    ~/.config/tidemark/config.yaml
  macOS             ~/Library/Application Support/tidemark/config.yaml
  Windows           %AppData%\tidemark\config.yaml

XDG_CONFIG_HOME counts everywhere when it is set. A project may have a file
.tidemark.yaml at its root, which cannot say where sessions are kept, how long,
or what of them is masked.

Key files are in the folder keys beside config.yaml, one for each key that opens
a store. Without its key an encrypted store cannot be read: keep a recovery key
elsewhere (tidemark key export-recovery).

The token of tidemark serve is in server.token beside its store.

What you granted to sessions (tidemark grants) is in grants.json, and the key of a
fleet that was up here in fleet.key, in a folder that belongs to this machine:

  Linux and others  $XDG_STATE_HOME/tidemark
                    ~/.local/state/tidemark
  macOS             ~/Library/Application Support/tidemark/state
  Windows           %LOCALAPPDATA%\tidemark

They are in no store, no archive and no export. A file that others can read or write
grants nothing.

Everything is made for you alone: files with mode 0600, folders with 0700.`

const topicPrices = `What an answer cost is what its tool or provider recorded. Where nothing is
recorded, stats, the pages and chat estimate it: tokens times the price of the
model. The program has a table of list prices with the date at which they were
looked up; when that is more than 90 days ago, a note says so. A model that is
not in the table has no price, and its cost is shown as –, never as $0.

A file says it better. Name it in your configuration, a relative path starting
there:

  prices: prices.yaml

It has the prices in USD for a million tokens, by model, each from a day on:

  as_of: 2026-11-15
  models:
    my-model:
      - from: 2026-06-01
        input: 4
        output: 20
        cache_write: 5      # for five minutes; as input when it is not there
        cache_write_1h: 8   # for an hour; entries do not tell the two apart
        cache_read: 0.4     # as input when it is not there

A model in the file has only the prices that the file says. Names match without
the vendor in front of them and without a date behind them: anthropic/m and
m-20260601 are m. In JSON, cost_source says recorded, estimated or mixed,
prices_as_of of when the oldest price is, and unpriced_messages how many answers
are not in cost_usd, which is null when nothing is known.`

// topicExitCodes is made from the table that the program itself uses.
func topicExitCodes() string {
	type row struct {
		exit    int
		name    string
		meaning string
	}
	rows := []row{{0, "", "done"}, {1, "failed", "failed, for a reason that has no code of its own"},
		{3, "", "partly done; stderr says what was skipped"}, {130, "", "interrupted by SIGINT"}, {143, "", "interrupted by SIGTERM"}, {129, "", "interrupted by SIGHUP, or the terminal closed"}}
	for _, c := range tidemark.Codes {
		rows = append(rows, row{c.Exit, c.Name, c.Err.Error()})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.exit, b.exit) })
	var b strings.Builder
	b.WriteString("The names are the codes of errors in JSON.\n\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "  %3d  %-15s  %s\n", r.exit, r.name, r.meaning)
	}
	b.WriteString(`
Every error is a line "tidemark: WHAT" on stderr and, where there is a way out,
a line "hint: COMMAND". Treat a code that is not listed as a failure.`)
	return b.String()
}

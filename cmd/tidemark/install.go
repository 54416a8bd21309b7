package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func (f *fleetRoom) install() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use: "install", Short: "Print a unit that keeps the fleet up",
		Long: `Prints a unit of systemd, or a property list of launchd, that runs this program
with this store, configuration and fleet file as this user, and starts it again
when it fails. Nothing is installed: read it, change it, and put it in its place.`,
		Example: "  tidemark fleet install --print systemd | sudo tee /etc/systemd/system/tidemark-fleet.service\n" +
			"  tidemark fleet install --print launchd > ~/Library/LaunchAgents/tidemark.fleet.plist",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(service) string{"systemd": service.systemd, "launchd": service.launchd}[kind]
			if !ok {
				return withHint(tidemark.Invalidf("--print %q: want systemd or launchd", kind), "%s --help", cmd.CommandPath())
			}
			s, err := f.service()
			if err != nil {
				return err
			}
			for _, dir := range s.writes {
				if _, err := os.Stat(dir); err != nil {
					f.say("tidemark: %s is not there yet: make it before the fleet starts", dir)
				}
			}
			_, err = io.WriteString(f.out, write(s))
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "print", "", "`KIND` of the unit: systemd or launchd")
	return cmd
}

// service is what a unit says.
type service struct {
	command []string // absolute
	user    string
	dir     string   // of the fleet file
	environ []string // PATH, by which agents find their programs, and what says where things are
	writes  []string // folders that the fleet changes
}

// service gathers what the fleet of these flags needs.
func (f *fleetRoom) service() (s service, err error) {
	file, err := file.Read(f.file)
	if err != nil {
		return s, err
	}
	program, err := os.Executable()
	if err != nil {
		return s, err
	}
	full, err := filepath.Abs(f.file)
	if err != nil {
		return s, err
	}
	url, _, err := f.location()
	if err != nil {
		return s, err
	}
	scheme, place, _ := strings.Cut(url, ":")
	s.dir = filepath.Dir(full)
	for _, name := range []string{"PATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIDEMARK_KEY_COMMAND", "TIDEMARK_PASSPHRASE_FILE"} {
		if v := os.Getenv(name); v != "" {
			s.environ = append(s.environ, name+"="+v)
		}
	}
	s.writes = append(s.writes, s.dir)
	if scheme == "sqlite" || scheme == "files" {
		if place, err = filepath.Abs(place); err != nil {
			return s, err
		}
		url = scheme + ":" + place
		if scheme == "sqlite" {
			place = filepath.Dir(place) // its log lies beside it
		}
		s.writes = append(s.writes, place)
	}
	s.command = []string{program, "--store", url}
	if s.command, err = f.named(s.command); err != nil {
		return s, err
	}
	s.command = append(s.command, "fleet", "up", "--file", full)
	for _, a := range file.Agents {
		s.writes = append(s.writes, a.Dir)
	}
	state, err := stateDir() // what was granted, and the fleet's own key
	if err != nil {
		return s, err
	}
	s.writes = append(s.writes, file.Mirror.Dir, state)
	s.writes = outermost(s.writes)
	if u, err := user.Current(); err == nil {
		s.user = u.Username
	}
	return s, s.check()
}

// named adds the files that flags and environment name.
func (f *fleetRoom) named(command []string) ([]string, error) {
	for _, n := range [][2]string{{"--config", f.configFile}, {"--key-file", cmp.Or(f.keyFile, os.Getenv("TIDEMARK_KEY_FILE"))}} {
		if n[1] == "" {
			continue
		}
		full, err := filepath.Abs(n[1])
		if err != nil {
			return nil, err
		}
		command = append(command, n[0], full)
	}
	return command, nil
}

// outermost leaves out folders that lie in others, and "".
func outermost(dirs []string) []string {
	slices.Sort(dirs)
	var all []string
	for _, dir := range dirs {
		inside := slices.ContainsFunc(all, func(outer string) bool {
			below, err := filepath.Rel(outer, dir)
			return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
		})
		if dir != "" && !inside {
			all = append(all, dir)
		}
	}
	return all
}

// check refuses what a unit cannot say.
func (s service) check() error {
	for _, word := range slices.Concat(s.command, s.writes, s.environ, []string{s.user, s.dir}) {
		if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
			return tidemark.Invalidf("%q: has signs that a unit cannot hold", word)
		}
	}
	return nil
}

// systemdWord writes a word so that systemd takes it as it is.
func systemdWord(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s)
	if s == "" || strings.ContainsAny(s, " ';\\\"") {
		return `"` + s + `"`
	}
	return s
}

func (s service) systemd() string {
	var command, environ, writes []string
	for _, word := range s.command {
		command = append(command, strings.ReplaceAll(systemdWord(word), "$", "$$"))
	}
	for _, v := range s.environ {
		environ = append(environ, "Environment="+systemdWord(v))
	}
	for _, dir := range s.writes {
		writes = append(writes, "ReadWritePaths="+systemdWord(dir))
	}
	return fmt.Sprintf(`# /etc/systemd/system/tidemark-fleet.service
# then: systemctl daemon-reload && systemctl enable --now tidemark-fleet
[Unit]
Description=Tidemark fleet
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=60
ExecStart=%s
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
# Runs have half a minute to end; what is left of them is ended with the fleet.
TimeoutStopSec=60
KillMode=mixed
User=%s
WorkingDirectory=%s
%s
# What agents get by pass_env, and the secrets of webhooks, come from a file:
#EnvironmentFile=/etc/tidemark-fleet.env
UMask=0077
# The agents run inside of this, too. One that writes elsewhere, such as a
# program with a folder of its own in your home, needs another ReadWritePaths.
ProtectSystem=strict
ProtectHome=read-only
%s
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
`, strings.Join(command, " "), systemdWord(s.user), strings.ReplaceAll(s.dir, "%", "%%"), strings.Join(environ, "\n"), strings.Join(writes, "\n"))
}

func (s service) launchd() string {
	text := func(s string) string {
		var b strings.Builder
		xml.EscapeText(&b, []byte(s)) // a Builder takes everything
		return "<string>" + b.String() + "</string>"
	}
	var command, environ strings.Builder
	for _, word := range s.command {
		command.WriteString("\n    " + text(word))
	}
	for _, v := range s.environ {
		name, value, _ := strings.Cut(v, "=")
		environ.WriteString("\n    <key>" + name + "</key>\n    " + text(value))
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ~/Library/LaunchAgents/tidemark.fleet.plist
     then: launchctl bootstrap gui/$UID ~/Library/LaunchAgents/tidemark.fleet.plist
     Untried: it was written from the manual, on another system. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>tidemark.fleet</string>
  <key>ProgramArguments</key>
  <array>%s
  </array>
  <key>WorkingDirectory</key>
  %s
  <key>EnvironmentVariables</key>
  <dict>%s
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>5</integer>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>ProcessType</key>
  <string>Background</string>
</dict>
</plist>
`, command.String(), text(s.dir), environ.String())
}

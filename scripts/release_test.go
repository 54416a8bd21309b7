// What people install is built, looked into, installed and removed here. The
// scripts have no Go beside them, so this room has tests alone.
package scripts_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// need is a program that a test cannot do without. Where everything is to be
// there, its absence is a fault.
func need(t *testing.T, program string) string {
	t.Helper()
	found, err := exec.LookPath(program)
	switch {
	case err == nil:
		return found
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	}
	t.Skip("needs ", program, ": ", err)
	return ""
}

// said runs a program that has to succeed.
func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// one is the only file that a pattern finds.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// TestWhatPeopleInstall builds a release for this machine twice, as two people
// would, and tries all that is in it.
func TestWhatPeopleInstall(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_RELEASE") == "" {
		t.Skip("links the program twice, packs and installs it: make releasecheck sets TIDEMARK_TEST_RELEASE")
	}
	if runtime.GOOS == "windows" {
		t.Skip("releases are built on Linux and macOS")
	}
	need(t, "bash")
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "release.sh", "--check", runtime.GOOS+"/"+runtime.GOARCH)
	cmd.Env = append(os.Environ(), "OUT="+out, "VERSION=v0.1.0-rc1", "COMMIT=c0ffee", "SOURCE_DATE_EPOCH=1750000000")
	if log, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(log), "built twice, the same bytes") {
		t.Fatalf("%v\n%s", err, log)
	}
	name := filepath.Join(out, "tidemark_0.1.0-rc1_"+runtime.GOOS+"_"+runtime.GOARCH)
	program := filepath.Join(t.TempDir(), "tidemark")

	t.Run("sums", func(t *testing.T) { sumsHold(t, out) })
	t.Run("archive", func(t *testing.T) { archiveHoldsAll(t, name+".tar.gz", program) })
	t.Run("program", func(t *testing.T) {
		var v struct{ Version, Commit, Date string }
		if err := json.Unmarshal([]byte(said(t, program, "version", "--json")), &v); err != nil {
			t.Fatal(err)
		}
		if v.Version != "0.1.0-rc1" || v.Commit != "c0ffee" || v.Date != "2025-06-15T15:06:40Z" {
			t.Errorf("%+v", v)
		}
	})
	t.Run("SBOM", func(t *testing.T) { documentsNameAll(t, name, program) })
	t.Run("deb", func(t *testing.T) { debComesAndGoes(t, out) })
	t.Run("rpm", func(t *testing.T) { rpmComesAndGoes(t, out) })
	t.Run("unit", func(t *testing.T) { unitIsTaken(t, program) })
}

func sumsHold(t *testing.T, out string) {
	list, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if line := hex.EncodeToString(sum[:]) + "  " + f.Name() + "\n"; !strings.Contains(string(list), line) {
			t.Errorf("SHA256SUMS does not say %s", line)
		}
	}
}

// archiveHoldsAll compares names, and takes the program out.
func archiveHoldsAll(t *testing.T, file, program string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	top, found := strings.TrimSuffix(filepath.Base(file), ".tar.gz")+"/", map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.ModTime.Unix() != 1750000000 || !strings.HasPrefix(h.Name, top) {
			t.Errorf("%s: of %d at %s", h.Name, h.Uid, h.ModTime)
		}
		name := strings.TrimPrefix(h.Name, top)
		if found[name] = true; name != "tidemark" {
			continue
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(program, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"tidemark", "LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES.txt", "completions/tidemark.bash", "completions/tidemark.zsh",
		"completions/tidemark.fish", "completions/tidemark.ps1", "man1/tidemark.1", "man1/tidemark-serve.1"} {
		if !found[want] {
			t.Errorf("has no %s", want)
		}
	}
}

// documentsNameAll compares both documents with what the linker wrote.
func documentsNameAll(t *testing.T, name, program string) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{".cdx.json", ".spdx.json"} {
		b, err := os.ReadFile(name + end)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			BomFormat, SpecVersion, SpdxVersion string
			Components                          []struct {
				Name     string
				Licenses []any
			}
			Packages []struct{ Name, LicenseDeclared string }
		}
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		var named []string
		for _, c := range doc.Components {
			if named = append(named, c.Name); len(c.Licenses) == 0 {
				t.Errorf("%s: %s has no licence", end, c.Name)
			}
		}
		for _, p := range doc.Packages {
			if named = append(named, p.Name); p.LicenseDeclared == "NOASSERTION" {
				t.Errorf("%s: %s has no licence", end, p.Name)
			}
		}
		if doc.BomFormat+doc.SpecVersion+doc.SpdxVersion != map[string]string{".cdx.json": "CycloneDX1.6", ".spdx.json": "SPDX-2.3"}[end] {
			t.Errorf("%s: is %s %s %s", end, doc.BomFormat, doc.SpecVersion, doc.SpdxVersion)
		}
		for _, m := range info.Deps {
			if !slices.Contains(named, m.Path) || !bytes.Contains(b, []byte(m.Sum)) {
				t.Errorf("%s: has no %s with its sum", end, m.Path)
			}
		}
	}
}

// tree lists what is in a folder, and what matters of it.
func tree(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err == nil && !d.IsDir() && !strings.HasPrefix(below, "var/lib/dpkg/") && !strings.HasPrefix(below, "var/lib/rpm/") {
			all = append(all, below)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// machine is the root of one with somebody's sessions on it.
func machine(t *testing.T) (root string, before []string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("packages are installed by root on Linux")
	}
	root = t.TempDir()
	for _, store := range []string{"var/lib/tidemark/.local/share/tidemark/tidemark.db", "home/ada/.local/share/tidemark/tidemark.db"} {
		full := filepath.Join(root, store)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("sessions"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, tree(t, root)
}

// installed looks whether a package brought what it should, for whom it should.
func installed(t *testing.T, root string) {
	t.Helper()
	for name, mode := range map[string]fs.FileMode{"usr/bin/tidemark": 0o755, "etc/tidemark/serve.env": 0o600, "usr/share/man/man1/tidemark-serve.1.gz": 0o644,
		"usr/share/bash-completion/completions/tidemark": 0o644, "usr/share/tidemark/sysusers.conf": 0o644} {
		if i, err := os.Stat(filepath.Join(root, name)); err != nil || i.Mode() != mode {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
	if v := said(t, filepath.Join(root, "usr/bin/tidemark"), "version"); !strings.HasPrefix(v, "tidemark 0.1.0-rc1 ") {
		t.Error(v)
	}
}

func debComesAndGoes(t *testing.T, out string) {
	need(t, "dpkg-deb")
	root, before := machine(t)
	file := one(t, filepath.Join(out, "tidemark_0.1.0~rc1_*.deb"))
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) string {
		return said(t, "dpkg", append([]string{"--root=" + root, "--log=/dev/null", "--force-script-chrootless"}, args...)...)
	}
	dpkg("--install", file)
	installed(t, root)
	if wrong := dpkg("--verify", "tidemark"); wrong != "" {
		t.Errorf("files are not what md5sums says:\n%s", wrong)
	}
	dpkg("--remove", "tidemark")
	if left := tree(t, root); !slices.Equal(left, slices.Insert(slices.Clone(before), 0, "etc/tidemark/serve.env")) {
		t.Errorf("remove leaves %q", left)
	}
	dpkg("--purge", "tidemark")
	if left := tree(t, root); !slices.Equal(left, before) {
		t.Errorf("purge leaves %q, there was %q", left, before)
	}
	if lintian, err := exec.LookPath("lintian"); err == nil {
		if said := said(t, lintian, "--no-cfg", "--allow-root", "--profile", "debian", file); said != "" {
			t.Error(said)
		}
	}
}

func rpmComesAndGoes(t *testing.T, out string) {
	need(t, "rpmbuild")
	root, before := machine(t)
	file := one(t, filepath.Join(out, "tidemark-0.1.0~rc1-1.*.rpm"))
	// A bare root has no shell for scripts.
	rpm := func(args ...string) string {
		return said(t, "rpm", append([]string{"--root=" + root, "--dbpath=/var/lib/rpm", "--nosignature", "--nodeps", "--noscripts"}, args...)...)
	}
	rpm("--install", file)
	installed(t, root)
	rpm("--verify", "tidemark")
	rpm("--erase", "tidemark")
	if left := tree(t, root); !slices.Equal(left, before) {
		t.Errorf("erase leaves %q, there was %q", left, before)
	}
	if strings.Contains(said(t, "rpm", "-qp", "--nosignature", "--requires", file), "libc") {
		t.Error("a static program needs libraries")
	}
}

func unitIsTaken(t *testing.T, program string) {
	analyze := need(t, "systemd-analyze")
	unit, err := os.ReadFile("../packaging/systemd/tidemark-serve.service")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tidemark-serve.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(unit, []byte("/usr/bin/tidemark"), []byte(program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := said(t, analyze, "verify", "--man=no", "--recursive-errors=no", file); strings.Contains(out, "tidemark-serve.service:") {
		t.Error(out)
	}
	var exposure float64
	out := said(t, analyze, "security", "--offline=true", "--no-pager", file)
	_, last, _ := strings.Cut(out, "Overall exposure level for tidemark-serve.service: ")
	if _, err := fmt.Sscan(last, &exposure); err != nil || exposure > 2 {
		t.Errorf("exposure %q, %v, want at most 2", last, err)
	}
}

// TestServiceIsAsGuardedAsTheFleet compares the unit with the one that `fleet
// install` prints: what guards one guards the other.
func TestServiceIsAsGuardedAsTheFleet(t *testing.T) {
	source, err := os.ReadFile("../fleet/unit/systemd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("../packaging/systemd/tidemark-serve.service")
	if err != nil {
		t.Fatal(err)
	}
	guards := 0
	for s := bufio.NewScanner(bytes.NewReader(source)); s.Scan(); {
		for _, word := range []string{"Protect", "Private", "Restrict", "NoNew", "Lock", "Capability", "SystemCallArch", "UMask="} {
			line := s.Text()
			if !strings.HasPrefix(line, word) || !strings.Contains(line, "=") || strings.HasPrefix(line, "ProtectHome=") {
				continue
			}
			if guards++; !strings.Contains(string(unit), "\n"+line+"\n") {
				t.Errorf("the service has no %s", line)
			}
		}
	}
	if guards < 10 {
		t.Errorf("only %d guards were found", guards)
	}
}

// TestFilesForOtherSystemsCanBeRead looks at what cannot be run here.
func TestFilesForOtherSystemsCanBeRead(t *testing.T) {
	b, err := os.ReadFile("../packaging/launchd/tidemark.serve.plist")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Keys  []string `xml:"dict>key"`
		Words []string `xml:"dict>array>string"`
	}
	if err := xml.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(list.Keys, "Label") || !slices.Contains(list.Words, "serve") {
		t.Errorf("%+v", list)
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		said(t, ruby, "-c", "../packaging/homebrew/tidemark.rb")
	}
	for _, script := range []string{"release.sh", "../packaging/packages.sh", "../packaging/compose/roles.sh", "../packaging/compose/secrets.sh", "../packaging/deb/postinst", "../packaging/deb/prerm", "../packaging/deb/postrm"} {
		if bash, err := exec.LookPath("bash"); err == nil {
			said(t, bash, "-n", script)
		}
	}
}

// TestSecretsAreDrawnOnce runs what compose.yaml says to run first.
func TestSecretsAreDrawnOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func() (all []string) {
		said(t, "sh", "../packaging/compose/secrets.sh", dir)
		for _, name := range []string{"postgres_password", "pgpass_owner", "pgpass_server"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) < 49 {
				t.Fatalf("%s: %q, %v", name, b, err)
			}
			all = append(all, string(b))
		}
		return all
	}
	first := read()
	if again := read(); !slices.Equal(first, again) {
		t.Error("passwords that are in use are drawn anew")
	}
	if i, err := os.Stat(dir); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", i, err)
	}
	compose, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ToLower(string(compose)), "password: ") {
		t.Error("compose.yaml has a password in it")
	}
}

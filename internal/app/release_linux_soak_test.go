//go:build soak && linux

package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestReleasePackages builds the files of a release for this machine, installs the package for
// Debian into an empty root, and runs the installed program.
func TestReleasePackages(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "dist")
	build := exec.Command("bash", "scripts/release.sh")
	build.Dir = module
	build.Env = append(os.Environ(), "OUT="+out, "PLATFORMS=linux/"+runtime.GOARCH, "TRIM=")
	said, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("scripts/release.sh: %v\n%s", err, said)
	}
	t.Logf("%s", said)
	sums := exec.Command("sha256sum", "-c", "--strict", "checksums.txt")
	sums.Dir = out
	if text, err := sums.CombinedOutput(); err != nil {
		t.Errorf("checksums: %v\n%s", err, text)
	}
	for _, form := range []string{"deb", "rpm", "apk", "tar.gz", "cdx.json"} {
		onlyFile(t, out, "perdure_*_linux_"+runtime.GOARCH+"."+form)
	}
	checkBill(t, onlyFile(t, out, "*.cdx.json"))
	checkArchive(t, onlyFile(t, out, "*.tar.gz"))

	root := installDeb(t, onlyFile(t, out, "*.deb"))
	for _, file := range []string{
		"usr/share/man/man1/perdure.1.gz", "usr/share/man/man1/perdure-serve.1.gz", "usr/share/man/man7/perdure-exit-codes.7.gz",
		"usr/share/bash-completion/completions/perdure", "usr/share/zsh/vendor-completions/_perdure",
		"usr/share/fish/vendor_completions.d/perdure.fish", "usr/lib/systemd/system/perdure.service",
		"usr/lib/sysusers.d/perdure.conf", "etc/perdure/perdure.env", "usr/share/doc/perdure/copyright",
	} {
		if found, err := os.Stat(filepath.Join(root, file)); err != nil || found.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	program := filepath.Join(root, "usr/bin/perdure")
	home := t.TempDir()
	script := filepath.Join(home, "agent.yaml")
	if err := os.WriteFile(script, []byte("steps: [{text: Hello.}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"version":                                "perdure v0.",
		"run --model scripted:" + script + " hi": "Hello.\n",
	} {
		cmd := exec.Command(program, strings.Fields(line)...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		if text, err := cmd.Output(); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("perdure %s: %v\n%s", line, err, text)
		}
	}
}

// onlyFile returns the only file that matches.
func onlyFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v", pattern, found, err)
	}
	return found[0]
}

// checkBill wants the modules of the program in the list of contents.
func checkBill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BomFormat  string
		Components []struct{ Name string }
	}
	if err := json.Unmarshal(text, &list); err != nil || list.BomFormat != "CycloneDX" {
		t.Fatalf("%v, format %q", err, list.BomFormat)
	}
	if !slices.Contains(list.Components, struct{ Name string }{"modernc.org/sqlite"}) {
		t.Errorf("the list has no SQLite: %v", list.Components)
	}
}

// checkArchive wants the program and its papers in the archive.
func checkArchive(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		names = append(names, name)
		if name == "perdure" && header.FileInfo().Mode()&0o111 == 0 {
			t.Error("the program cannot be executed")
		}
	}
	for _, name := range []string{"perdure", "LICENSE", "README.md", "CHANGELOG.md", "perdure.service", "completions/_perdure", "man/man1/perdure.1.gz"} {
		if !slices.Contains(names, name) {
			t.Errorf("the archive has no %s: %v", name, names)
		}
	}
}

// installDeb installs a package into an empty root: as dpkg does it, where the test may, and else
// by unpacking.
func installDeb(t *testing.T, file string) (root string) {
	t.Helper()
	root = t.TempDir()
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Fatalf("the package is installed with dpkg, which make soak brings: %v", err)
	}
	line := []string{"dpkg-deb", "-x", file, root}
	if os.Getuid() == 0 {
		for _, dir := range []string{"info", "updates", "triggers"} {
			if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		// The scripts run outside the root, which has no shell, and are given DPKG_ROOT.
		line = []string{"dpkg", "--root=" + root, "--force-script-chrootless", "--install", file}
	}
	if text, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, text)
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err == nil && !strings.Contains(string(users), "perdure:") { // without systemd nothing creates users there
		t.Errorf("the service has no user:\n%s", users)
	}
	return root
}

//go:build soak

package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/perdure/perdure"

// TestGoInstall installs the program as the README says, from a module proxy made of the working
// tree, outside the repository, and runs it. Only this detects a go.mod with exclude or replace
// lines.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	content, version := moduleZip(t)
	proxy := writeProxy(t, content, version)
	modules := goEnv(t, "GOMODCACHE")
	bin := t.TempDir()
	t.Cleanup(func() { forgetModule(t, modules, version) })

	cmd := exec.Command("go", "install", modulePath+"/cmd/perdure@"+version)
	cmd.Dir = t.TempDir()
	// Its dependencies were downloaded, and checked against go.sum, to build this test.
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+filepath.Join(modules, "cache", "download"), "GOSUMDB=off",
		"GOFLAGS=", "GOWORK=off", "GOBIN="+bin, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}

	out, err := exec.Command(filepath.Join(bin, "perdure"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "perdure") {
		t.Errorf("perdure version: %v\n%s", err, out)
	}
	t.Logf("installed: %s", bytes.TrimSpace(out))
}

// moduleZip is the working tree as a module's zip, and a version named after its content.
func moduleZip(t *testing.T) (content []byte, version string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = module
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the module: %v", err)
	}
	files := map[string][]byte{}
	hash := sha256.New()
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(module, name))
		if os.IsNotExist(err) || inner(name) {
			continue // deleted and not committed, or part of a nested module
		}
		if err != nil {
			t.Fatal(err)
		}
		names, files[name] = append(names, name), text
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
	}
	version = "v0.0.0-" + hex.EncodeToString(hash.Sum(nil))[:12]
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, name := range names {
		w, err := archive.Create(modulePath + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes(), version
}

// inner reports whether a file belongs to a module below the root.
func inner(name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(module, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// writeProxy writes one version of the module in the layout of a module proxy
// (https://go.dev/ref/mod#goproxy-protocol).
func writeProxy(t *testing.T, content []byte, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := filepath.Join(dir, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version), version + ".mod": mod, version + ".zip": content,
	} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// forgetModule removes the test's module from the module cache.
func forgetModule(t *testing.T, modules, version string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(modules, "cache", "download", filepath.FromSlash(modulePath), "@v", version+".*"))
	if err != nil {
		t.Error(err)
	}
	tree := filepath.Join(modules, filepath.FromSlash(modulePath)+"@"+version)
	err = filepath.WalkDir(tree, func(name string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(name, 0o755) // the cache is read-only
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range append(found, tree) {
		if err := os.RemoveAll(name); err != nil {
			t.Error(err)
		}
	}
}

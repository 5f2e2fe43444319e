// Package modproxy makes a Go module proxy of the working tree, in the file system, so that tests
// build programs outside this module as a user does: with go install and go get.
//
// It may import nothing of ours. The one thing to know: the version is named after the content,
// so the module cache never has an older tree under it. The test removes it from the cache again.
package modproxy

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

// Path is the path of this module.
const Path = "github.com/perdure/perdure"

// Proxy is a module proxy with one version of this module.
type Proxy struct {
	Version string
	env     []string
}

// New makes a proxy of the working tree at root, with a folder of its own. The version is removed
// from the module cache when the test ends.
func New(t testing.TB, root string) *Proxy {
	t.Helper()
	content, version := moduleZip(t, root)
	dir := write(t, root, content, version)
	modules := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() { forget(t, modules, version) })
	// What this module requires was downloaded, and checked against go.sum, to build the test.
	return &Proxy{Version: version, env: []string{
		"GOPROXY=file://" + dir + ",file://" + filepath.Join(modules, "cache", "download"), "GOSUMDB=off",
		"GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0",
	}}
}

// Go runs the go command in a folder, with this proxy. env has more variables.
func (p *Proxy) Go(t testing.TB, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), p.env...), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// moduleZip returns the working tree as a module's zip, and a version named after its content.
func moduleZip(t testing.TB, root string) (content []byte, version string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the module: %v", err)
	}
	files := map[string][]byte{}
	hash := sha256.New()
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) || nested(root, name) {
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
		w, err := archive.Create(Path + "@" + version + "/" + name)
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

// nested reports whether a file belongs to a module below the root.
func nested(root, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// write writes one version of the module in the layout of a module proxy
// (https://go.dev/ref/mod#goproxy-protocol).
func write(t testing.TB, root string, content []byte, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := filepath.Join(dir, filepath.FromSlash(Path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version),
		version + ".mod": mod, version + ".zip": content,
	} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// forget removes the version from the module cache.
func forget(t testing.TB, modules, version string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(modules, "cache", "download", filepath.FromSlash(Path), "@v", version+".*"))
	if err != nil {
		t.Error(err)
	}
	tree := filepath.Join(modules, filepath.FromSlash(Path)+"@"+version)
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

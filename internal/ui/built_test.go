package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources is the folder of the sources of the UI.
const sources = "../../ui"

// TestBuilt: the built files belong to the sources, the lock file and the OpenAPI document. The
// build writes a hash of what it reads; ui/scripts/digest.mjs says how.
func TestBuilt(t *testing.T) {
	t.Parallel()
	parts := []string{"../docs/reference/openapi.json", "client/index.ts", "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"}
	for _, folder := range []string{"public", "scripts", "src"} {
		err := fs.WalkDir(os.DirFS(sources), folder, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				parts = append(parts, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(parts)
	all := sha256.New()
	for _, name := range parts {
		text, err := os.ReadFile(filepath.Join(sources, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(text), name)
	}
	want := hex.EncodeToString(all.Sum(nil))
	got, err := dist.ReadFile("dist/digest.txt")
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("the web UI was built from other sources than these: run  make ui  and commit internal/ui/dist (got %s, want %s, %v)", got, want, err)
	}
}

// TestFirstLoad: the page, and what it loads before it shows anything, has at most 150 KB with
// gzip.
func TestFirstLoad(t *testing.T) {
	t.Parallel()
	const limit = 150_000
	index := files()[indexFile]
	loaded, total := []string{indexFile}, len(pack(index.text))
	for _, found := range regexp.MustCompile(`(?:src|href)="\./(assets/[^"]+)"`).FindAllStringSubmatch(string(index.text), -1) {
		file, ok := files()[found[1]]
		if !ok {
			t.Fatalf("the page names %s, which is not there", found[1])
		}
		loaded, total = append(loaded, found[1]), total+len(file.packed)
	}
	if t.Logf("%d bytes: %v", total, loaded); total > limit || len(loaded) < 3 {
		t.Errorf("got %d bytes in %v, want at most %d", total, loaded, limit)
	}
}

// TestMediaTypes: the server knows the type of each file.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for name, file := range files() {
		if file.media == "" {
			t.Errorf("%s has no media type", name)
		}
	}
}

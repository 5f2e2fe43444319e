package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
)

func open(t *testing.T, dir string) *blob.Store {
	t.Helper()
	s, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s *blob.Store, content string) string {
	t.Helper()
	name, err := s.Put([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// walk returns the names of all blobs.
func walk(t *testing.T, s *blob.Store, before time.Time) map[string]blob.Blob {
	t.Helper()
	found := map[string]blob.Blob{}
	if err := s.Walk(before, func(b blob.Blob) error { found[b.SHA256] = b; return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

func fileOf(dir, name string) string { return filepath.Join(dir, "blobs", name[:2], name) }

func TestBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	sum := sha256.Sum256([]byte("words"))

	name := put(t, s, "words")

	if name != hex.EncodeToString(sum[:]) {
		t.Errorf("got the name %s", name)
	}
	empty, large := put(t, s, ""), put(t, s, strings.Repeat("x", 3<<20))
	for content, name := range map[string]string{"words": name, "": empty, strings.Repeat("x", 3<<20): large} {
		if got, err := open(t, dir).Get(name); err != nil || string(got) != content {
			t.Errorf("got %.20q, %v, want %.20q", got, err, content)
		}
	}
	if found := walk(t, s, time.Time{}); len(found) != 3 || found[large].SizeBytes != 3<<20 ||
		time.Since(found[name].PutAt) > time.Hour {
		t.Errorf("got %v", found)
	}
	for _, unknown := range []string{strings.Repeat("0", 64), "", "..", "../x", "ab/cd", strings.ToUpper(name)} {
		if _, err := s.Get(unknown); !errors.Is(err, perdure.NotFound) {
			t.Errorf("%q: got %v", unknown, err)
		}
	}
}

// TestDamage: a file whose content does not match its name is never returned, and is written again
// when the content comes again.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	name := put(t, s, "words")
	for _, damaged := range []string{"", "wordt", "word", "words "} {
		if err := os.WriteFile(fileOf(dir, name), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(name); !errors.Is(err, perdure.Storage) {
			t.Errorf("%q: got %v", damaged, err)
		}
		put(t, s, "words")
		if got, err := s.Get(name); err != nil || string(got) != "words" {
			t.Errorf("after %q: got %q, %v", damaged, got, err)
		}
	}
}

// TestRemove: a blob that is new, or was put again, stays, even if the caller thinks that it is
// unused.
func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	name := put(t, s, "words")
	old := time.Now().Add(-2 * time.Hour)
	age := func() {
		if err := os.Chtimes(fileOf(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() bool {
		gone, err := s.Remove(name, time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return gone
	}

	if remove() {
		t.Error("a new blob was removed")
	}
	age()
	put(t, s, "words")
	if remove() {
		t.Error("a blob that was put again was removed")
	}
	age()
	if !remove() || remove() {
		t.Error("an old blob was not removed, or twice")
	}
	if _, err := s.Get(name); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Remove("../x", time.Now()); !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v", err)
	}
}

// TestUnfinished: a write that a crash interrupted is not a blob, and is removed when it is old.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "words")
	left := filepath.Join(dir, "blobs", "new-ABC")
	if err := os.WriteFile(left, []byte("wor"), 0o600); err != nil {
		t.Fatal(err)
	}

	if found := walk(t, s, time.Now().Add(-time.Hour)); len(found) != 1 {
		t.Errorf("got %v", found)
	}
	if _, err := os.Lstat(left); err != nil {
		t.Errorf("a write that may continue was removed: %v", err)
	}
	walk(t, s, time.Now().Add(time.Hour))
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			content := bytes.Repeat([]byte{byte(i % 3)}, 100_000)
			name, err := s.Put(content)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Remove(name, time.Now().Add(-time.Hour)); err != nil {
				t.Error(err)
			}
			if got, err := s.Get(name); err != nil || !bytes.Equal(got, content) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if found := walk(t, s, time.Time{}); len(found) != 3 {
		t.Errorf("got %v", found)
	}
}

// TestFailedWrite: a failed write leaves nothing behind.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	sum := sha256.Sum256([]byte("words"))
	taken := filepath.Join(dir, "blobs", hex.EncodeToString(sum[:])[:2])
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := s.Put([]byte("words"))

	if !errors.Is(err, perdure.Storage) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "blobs")); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store/memory"
)

// TestHomeFile: a data directory has one id for ever, whoever opens it first, and a file that is
// none is refused with advice (RC22).
func TestHomeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (perdure.HomeID, error) {
		d, err := local.OpenDataDir(t.Context(), local.DataDirConfig{Dir: dir, Store: memory.New(memory.Config{})})
		if err != nil {
			return "", err
		}
		return d.Home, d.Close()
	}
	if _, err := open(); err != nil { // the keyring is created by one process
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "home")); err != nil {
		t.Fatal(err)
	}
	var first sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			id, err := open()
			if _, bad := perdure.ParseID[perdure.HomeID](string(id)); bad != nil {
				t.Errorf("got %q, %v", id, err)
			}
			first.Store(id, true)
		})
	}
	group.Wait()
	ids := 0
	first.Range(func(_, _ any) bool { ids++; return true })
	left, err := filepath.Glob(filepath.Join(dir, ".home-*"))
	if ids != 1 || err != nil || len(left) > 0 {
		t.Errorf("got %d ids, and the files %q, %v", ids, left, err)
	}

	path := filepath.Join(dir, "home")
	for name, text := range map[string]string{"empty": "", "half": "home_0193", "long": strings.Repeat("home_", 1000), "another id": "session_019aa0000000700080000000000000aa\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

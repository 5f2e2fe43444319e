package demo

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusedFolder checks that a demo leaves a folder with all its files unchanged unless a demo
// created it.
func TestRefusedFolder(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, Options) error{
		"crash":     func(ctx context.Context, s Options) error { return Crash{Options: s, Kills: 1}.Run(ctx) },
		"agents":    func(ctx context.Context, s Options) error { return Agents{s}.Run(ctx) },
		"approvals": func(ctx context.Context, s Options) error { return Approvals{Options: s}.Run(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mine := map[string]string{}
			for _, file := range []string{InvoiceFile(1), "work/parts/1.txt", "ledger.jsonl", "data/perdure.db"} {
				path := filepath.Join(dir, file)
				mine[path] = "mine"
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			err := run(t.Context(), Options{Dir: dir, Out: io.Discard, Stderr: io.Discard})

			if err == nil || !strings.Contains(err.Error(), "was not made by a demo") {
				t.Errorf("got %v, want a refusal", err)
			}
			for path, text := range filesBelow(t, dir) {
				if mine[path] != text {
					t.Errorf("%s holds %q, want %q", path, text, mine[path])
				}
			}
		})
	}
}

func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

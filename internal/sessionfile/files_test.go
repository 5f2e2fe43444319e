package sessionfile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// subject is a session's files with access to the runtime's files.
type subject struct {
	*sessionfile.Files
	runtime *sessionfile.Files
}

// Runtime returns the view that may write below /.background.
func (s subject) Runtime() tool.Files { return s.runtime }

// stores are the stores of files.
var stores = map[string]func(t *testing.T) store.Store{
	"memory": func(*testing.T) store.Store { return memory.New(memory.Config{}) },
	"sqlite": func(t *testing.T) store.Store {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	},
}

func newSession(t *testing.T, st store.Store) perdure.SessionID {
	t.Helper()
	id := core.NewID[perdure.SessionID]()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Files(t, func(t *testing.T) tool.Files {
				st := open(t)
				id := newSession(t, st)
				return subject{sessionfile.New(st, id, false), sessionfile.New(st, id, true)}
			})
		})
	}
}

func TestFileQuotas(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.FileQuotas(t, func(t *testing.T, l tool.FileLimits) tool.Files {
				st := open(t)
				id := newSession(t, st)
				return subject{sessionfile.New(st, id, false).Limit(l), sessionfile.New(st, id, true).Limit(l)}
			})
		})
	}
}

// The default limits apply where none are set: 100 MB a file, 500 MB a session. Only sizes are real
// here, since the store reports the usage.
func TestFilesHoldTheLimitsOfTheRule(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	id := newSession(t, st)
	files := sessionfile.New(full{st}, id, false)

	_, err := files.Write(t.Context(), tool.FileWrite{Path: "/a", Content: []byte("12")})
	_, largeErr := files.Write(t.Context(), tool.FileWrite{Path: "/a", Content: make([]byte, 100<<20+1)})

	if !errors.Is(err, perdure.Limit) || !strings.Contains(err.Error(), "use 524287999 bytes, it would add 2, the limit is 524288000") {
		t.Errorf("got %v", err)
	}
	if !errors.Is(largeErr, perdure.Limit) || !strings.Contains(largeErr.Error(), "has 104857601 bytes, the limit is 104857600") {
		t.Errorf("got %v", largeErr)
	}
	if _, err := files.Write(t.Context(), tool.FileWrite{Path: "/a", Content: []byte("1")}); err != nil {
		t.Errorf("the last byte: %v", err)
	}
}

// full is a store of sessions whose files have all but one byte of their quota.
type full struct{ store.Store }

func (f full) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.InTx(ctx, func(tx store.Tx) error { return fn(fullTx{tx}) })
}

type fullTx struct{ store.Tx }

func (tx fullTx) Files() store.Files { return fullFiles{tx.Tx.Files()} }

type fullFiles struct{ store.Files }

func (fullFiles) TotalBytes(perdure.SessionID) (int64, error) { return 500<<20 - 1, nil }

// A session and its initial files are written in one commit, or neither is.
func TestSeedInATransaction(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := open(t)
			id := core.NewID[perdure.SessionID]()
			files := sessionfile.New(st, id, false)
			create := func(initial ...tool.InitialFile) error {
				return st.InTx(t.Context(), func(tx store.Tx) error {
					if err := tx.Sessions().Create(store.Session{ID: id, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}); err != nil {
						return err
					}
					for _, f := range initial {
						if err := files.SeedIn(tx, f); err != nil {
							return err
						}
					}
					return nil
				})
			}
			fixed := tool.InitialFile{Path: "/AGENTS.md", Content: "Be kind.", IsReadOnly: true}

			err := create(fixed, tool.InitialFile{Path: "/../out"})
			if !errors.Is(err, perdure.Invalid) {
				t.Errorf("got %v", err)
			}
			if _, err := files.Read(t.Context(), "/AGENTS.md"); !errors.Is(err, perdure.NotFound) {
				t.Errorf("a refused session left a file: %v", err)
			}

			if err := create(fixed); err != nil {
				t.Fatal(err)
			}
			if got, err := files.Read(t.Context(), "/AGENTS.md"); err != nil || string(got.Content) != "Be kind." || !got.IsReadOnly {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

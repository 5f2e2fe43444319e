package sessionfile_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// seeded are a session's files with the doors that only the host has.
type seeded struct {
	tool.Files
	store   *memory.Store
	session perdure.SessionID
}

// Seed writes a read-only file.
func (s seeded) Seed(ctx context.Context, name string, content []byte) error {
	return s.store.InTx(ctx, func(tx store.Tx) error {
		_, err := tx.PutFile(s.session, store.File{Path: name, Content: content, Encoding: store.EncodingText, ReadOnly: true})
		return err
	})
}

// Runtime returns the view that may write below /.background.
func (s seeded) Runtime() tool.Files { return sessionfile.New(s.store, s.session, true) }

func TestFiles(t *testing.T) {
	t.Parallel()
	tooltest.Files(t, func(t *testing.T) tool.Files {
		t.Helper()
		st, id := memory.New(memory.Config{}), effect.NewID[perdure.SessionID]()
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			return tx.CreateSession(store.Session{ID: id, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
		})
		if err != nil {
			t.Fatal(err)
		}
		return seeded{Files: sessionfile.New(st, id, false), store: st, session: id}
	})
}

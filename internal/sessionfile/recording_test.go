package sessionfile_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// counting is a store that counts commits, and refuses to append once the test says so.
type counting struct {
	store.Store
	commits int
	deaf    bool
}

func (c *counting) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := c.Store.InTx(ctx, func(tx store.Tx) error {
		if c.deaf {
			tx = deafTx{tx}
		}
		return fn(tx)
	})
	if err == nil {
		c.commits++
	}
	return err
}

type deafTx struct{ store.Tx }

func (tx deafTx) Journal() store.Journal { return deafJournal{tx.Tx.Journal()} }

type deafJournal struct{ store.Journal }

func (deafJournal) Append(perdure.SessionID, []perdure.Event) error { return perdure.Unavailable }

// journal returns the events of a session.
func journal(t *testing.T, st store.Store, id perdure.SessionID) (events []perdure.Event) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		events, err = r.Journal().Events(id, 0, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestTelling: each change is recorded in the journal, in its own commit, under the call that made
// it. A write that changes nothing is not recorded, and neither is a seed (FI9).
func TestTelling(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &counting{Store: open(t)}
			id := newSession(t, st)
			by := tool.Call{Session: id, Turn: "turn_1", ID: "call_1", Task: "task_1", Attempt: 2}
			files := sessionfile.New(st, id, false).Recording(by).Limit(tool.FileLimits{MaxFileBytes: 10})
			ctx, none := t.Context(), []byte("other")
			st.commits = 0

			changes := []func() error{
				func() error {
					_, err := files.Write(ctx, tool.FileWrite{Path: "/a/b/", Content: []byte("12345")})
					return err
				},
				func() error {
					_, err := files.Write(ctx, tool.FileWrite{Path: "/a/b", Content: []byte("12345")})
					return err
				},
				func() error { _, err := files.MakeDirectory(ctx, "/c"); return err },
				func() error { _, err := files.Remove(ctx, "/a", true); return err },
			}
			for _, change := range changes {
				if err := change(); err != nil {
					t.Fatal(err)
				}
			}
			if st.commits != len(changes) {
				t.Errorf("%d commits for %d changes", st.commits, len(changes))
			}
			for i, idle := range []func() error{
				func() error { _, err := files.MakeDirectory(ctx, "/c"); return err },
				func() error { _, err := files.Remove(ctx, "/a", true); return err },
				func() error { return files.Seed(ctx, tool.InitialFile{Path: "/s", Content: "s", IsReadOnly: true}) },
			} {
				if err := idle(); err != nil {
					t.Fatal(i, err)
				}
			}
			for i, refused := range []func() error{
				func() error { _, err := files.Write(ctx, tool.FileWrite{Path: "/s", Content: none}); return err },
				func() error { _, err := files.Write(ctx, tool.FileWrite{Path: "/n", IfContent: &none}); return err },
				func() error {
					_, err := files.Write(ctx, tool.FileWrite{Path: "/n", Content: make([]byte, 11)})
					return err
				},
				func() error { _, err := files.Write(ctx, tool.FileWrite{Path: "/.background/x"}); return err },
				func() error { _, err := files.Remove(ctx, "/s", false); return err },
				func() error { _, err := files.MakeDirectory(ctx, "/s"); return err },
			} {
				if refused() == nil {
					t.Fatal(i, "is not refused")
				}
			}

			want := []perdure.Fact{
				perdure.FileWritten{Path: "/a/b", SizeBytes: 5}, perdure.FileWritten{Path: "/a/b", SizeBytes: 5},
				perdure.FileWritten{Path: "/c", Directory: true}, perdure.FileWritten{Path: "/a", Removed: true},
			}
			var got []perdure.Fact
			for _, e := range journal(t, st, id) {
				got = append(got, e.Fact)
				if e.Turn != by.Turn || e.Call != by.ID || e.Task != by.Task || e.Attempt != 2 || e.Actor != "runtime" || e.At.IsZero() {
					t.Errorf("recorded as %+v", e)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTellingIsOneCommit: a change that cannot be recorded is not made.
func TestTellingIsOneCommit(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &counting{Store: open(t)}
			id := newSession(t, st)
			files := sessionfile.New(st, id, false).Recording(tool.Call{Session: id})
			if _, err := files.Write(t.Context(), tool.FileWrite{Path: "/old", Content: []byte("old")}); err != nil {
				t.Fatal(err)
			}
			st.deaf = true

			_, err1 := files.Write(t.Context(), tool.FileWrite{Path: "/new"})
			_, err2 := files.Remove(t.Context(), "/old", false)
			_, err3 := files.MakeDirectory(t.Context(), "/dir")

			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, perdure.Unavailable) {
					t.Errorf("got %v", err)
				}
			}
			found, err := files.List(t.Context(), "/", true)
			if err != nil || len(found) != 1 || found[0].Path != "/old" {
				t.Errorf("got %+v, %v", found, err)
			}
		})
	}
}

// TestTellingFiles is the suite of files over those that record changes.
func TestTellingFiles(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Files(t, func(t *testing.T) tool.Files {
				st := open(t)
				id := newSession(t, st)
				by := tool.Call{Session: id, ID: "call_1"}
				return subject{sessionfile.New(st, id, false).Recording(by), sessionfile.New(st, id, true).Recording(by)}
			})
		})
	}
}

package app

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
)

// TestReadingWritesNothing opens an empty database like a command that only reads: it stays empty
// until it is opened for writing, and can then be read.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	reading := cli.OpenOptions{Access: cli.Reading, Dir: t.TempDir(), Database: pgtest.Database(t, nil)}
	for range 2 { // the second time would find anything that the first created
		if _, err := openDatabase(t.Context(), reading); !errors.Is(err, perdure.NotFound) {
			t.Fatalf("got %v, want not found", err)
		}
	}
	writing := reading
	writing.Access = cli.Writing
	made, err := openDatabase(t.Context(), writing)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}

	st, err := openDatabase(t.Context(), reading)
	if err != nil {
		t.Fatal(err)
	}
	err = st.View(t.Context(), func(r store.Reader) error { _, err := r.Workers().List(); return err })
	if err := errors.Join(err, st.Close()); err != nil {
		t.Error(err)
	}
}

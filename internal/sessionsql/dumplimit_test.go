package sessionsql_test

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

// slowClient takes nothing until it is released.
type slowClient struct {
	entered chan<- struct{}
	release <-chan struct{}
}

func (c slowClient) Write(p []byte) (int, error) {
	c.entered <- struct{}{}
	<-c.release
	return len(p), nil
}

// TestDumpsAreLimited: clients that read slowly hold a limited number of copies in memory. A
// further dump is refused until one of them has ended.
func TestDumpsAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, sessionsql.Config{})
	db := s.For("slow")
	if _, err := db.Execute(t.Context(), tool.SQLStatement{Text: "CREATE TABLE t (x)"}); err != nil {
		t.Fatal(err)
	}
	dump := func(w io.Writer) error { return db.(tool.SQLDumper).Dump(t.Context(), "", w) }
	const most = 4
	entered, release := make(chan struct{}, most), make(chan struct{}) // one write of each
	errs := make(chan error, most)                                     // one of each
	var group sync.WaitGroup
	for range most {
		group.Go(func() { errs <- dump(slowClient{entered, release}) })
	}
	for range most {
		<-entered
	}

	err := dump(&bytes.Buffer{})

	if !errors.Is(err, perdure.Limit) {
		t.Errorf("one more: got %v, want a limit", err)
	}
	close(release)
	group.Wait()
	for range most {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := dump(&bytes.Buffer{}); err != nil {
		t.Errorf("after them: %v", err)
	}
}
